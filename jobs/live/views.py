"""GET /api/events/?job=…&worker=…: a stream of what staff may see, by session or by staff token."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, JsonResponse

from jobs.credentials import staff_with
from jobs.live.offers import BadTopic, topics_for
from jobs.live.streaming import stream
from jobs.refusal import Refusal, not_authenticated


def events(request: HttpRequest) -> HttpResponseBase:
    try:
        return stream(request, topics_for(_staff(request), request.GET))
    except Refusal as problem:
        return problem.as_response()
    except PermissionDenied as problem:
        return refusal(403, "forbidden", str(problem))
    except BadTopic as problem:
        return refusal(400, "bad_topic", str(problem))


def _staff(request: HttpRequest) -> Any:
    """The member of the staff who asks. Raises Refusal."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return staff_with(request, token.strip())
    user = request.user
    if not (user.is_active and user.is_staff):
        raise not_authenticated("not_signed_in", "Sign in as a member of the staff, or send a staff token.")
    return user


def may_see(user: Any, model: str) -> bool:
    """As Django's admin has it: who may change something may see it."""
    return bool(user.has_perm(f"jobs.view_{model}") or user.has_perm(f"jobs.change_{model}"))


def refusal(status: int, code: str, detail: str) -> JsonResponse:
    return JsonResponse({"error": code, "detail": detail}, status=status)
