"""GET /api/events/?job=…&workflow=…: the stream of jobs and workflows, for staff who may see jobs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from jobs.live.job_topics import BadTopic, topics_of
from jobs.live.streaming import stream


def events(request: HttpRequest) -> HttpResponseBase:
    user = request.user
    if not (user.is_active and user.is_staff):
        return refusal(401, "not_signed_in", "Sign in as a member of the staff.")
    if not may_see(user, "job"):
        return refusal(403, "forbidden", "You may not see jobs.")
    try:
        topics = topics_of(request.GET)
    except BadTopic as problem:
        return refusal(400, "bad_topic", str(problem))
    if not topics:
        return refusal(400, "bad_topic", "Say what to follow: ?job=… or ?workflow=…")
    return stream(request, topics)


def may_see(user: Any, model: str) -> bool:
    """As Django's admin has it: who may change something may see it."""
    return bool(user.has_perm(f"jobs.view_{model}") or user.has_perm(f"jobs.change_{model}"))


def refusal(status: int, code: str, detail: str) -> JsonResponse:
    return JsonResponse({"error": code, "detail": detail}, status=status)
