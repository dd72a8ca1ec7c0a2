"""Who asks: a member of the staff, by the session of the browser (then with CSRF token) or by a staff token."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from jobs.credentials import staff_with
from jobs.refusal import Refusal, not_authenticated

_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


def identify(request: HttpRequest, *permissions: str) -> Any:
    """The user, who has one of these permissions; sets request.user. The body is not touched before that is known."""
    header = request.headers.get("Authorization", "")
    user = _by_token(request, header) if header else getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        raise not_authenticated("not_authenticated", "Sign in, or send a staff token.")
    if not user.is_active or not user.is_staff or not any(user.has_perm(name) for name in permissions):
        raise Refusal(403, "forbidden", f"This takes the permission {' or '.join(permissions)}.")
    if not header:
        _check_csrf(request)
    request.user = user
    return user


def _by_token(request: HttpRequest, header: str) -> Any:
    match = _BEARER.fullmatch(header.strip())
    return staff_with(request, match[1] if match else "")


def _check_csrf(request: HttpRequest) -> None:
    """As Django's middleware does, which the views leave it to us: a token needs no such check."""

    def view(request: HttpRequest) -> HttpResponse:
        raise AssertionError("never called")

    check = CsrfViewMiddleware(view)
    check.process_request(request)
    if check.process_view(request, view, (), {}) is not None:
        raise Refusal(403, "csrf", "Send the CSRF token of the session in the header X-CSRFToken.")
