"""Who asks: a member of the staff, by the session of the browser (then with CSRF token) or by a staff token."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from jobs import conf, staff_tokens, throttle
from jobs.exceptions import TooManyTries
from jobs.rate_limits import Limit, forwarded_address
from videos.refusal import Refusal

_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


def identify(request: HttpRequest, *permissions: str) -> Any:
    """The user, who has one of these permissions; sets request.user. The body is not touched before that is known."""
    header = request.headers.get("Authorization", "")
    user = _by_token(request, header) if header else getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        raise Refusal(401, "not_authenticated", "Sign in, or send a staff token.", WWW_Authenticate="Bearer")
    if not user.is_active or not user.is_staff or not any(user.has_perm(name) for name in permissions):
        raise Refusal(403, "forbidden", f"This takes the permission {' or '.join(permissions)}.")
    if not header:
        _check_csrf(request)
    request.user = user
    return user


def _by_token(request: HttpRequest, header: str) -> Any:
    match = _BEARER.fullmatch(header.strip())
    user = staff_tokens.verify(match[1]) if match else None
    if user is None:
        _count_wrong(request)
        raise Refusal(
            401,
            "wrong_token",
            "This token is wrong, has expired or was made void.",
            WWW_Authenticate="Bearer",
        )
    return user


def _count_wrong(request: HttpRequest) -> None:
    """Together with those that the API of the queue refuses. Right tokens are never limited."""
    settings = conf.current()
    address = forwarded_address(
        request.META.get("REMOTE_ADDR") or "",
        request.headers.get("X-Forwarded-For", ""),
        settings.trusted_proxies,
    )
    try:
        throttle.take(Limit("wrong key", settings.failed_auth_rate), address)
    except TooManyTries as refusal:
        raise Refusal(429, "too_many_tries", str(refusal), Retry_After=str(refusal.retry_after)) from refusal


def _check_csrf(request: HttpRequest) -> None:
    """As Django's middleware does, which the views leave it to us: a token needs no such check."""

    def view(request: HttpRequest) -> HttpResponse:
        raise AssertionError("never called")

    check = CsrfViewMiddleware(view)
    check.process_request(request)
    if check.process_view(request, view, (), {}) is not None:
        raise Refusal(403, "csrf", "Send the CSRF token of the session in the header X-CSRFToken.")
