"""Wrong keys and tokens: what is answered, and how many of them a client may send. Needs no django-ninja."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from jobs import conf, staff_tokens, throttle
from jobs.exceptions import TooManyTries
from jobs.rate_limits import Limit, forwarded_address
from jobs.refusal import Refusal, not_authenticated, too_many_tries


def address_of(request: HttpRequest) -> str:
    return forwarded_address(
        request.META.get("REMOTE_ADDR") or "",
        request.headers.get("X-Forwarded-For", ""),
        conf.current().trusted_proxies,
    )


def refuse_wrong(request: HttpRequest, code: str, detail: str) -> Refusal:
    """The answer to wrong credentials: 401, or 429 when there were many from there.

    Right ones are never limited: else whoever shares an address with a worker could lock it out.
    """
    try:
        throttle.take(Limit("wrong key", conf.current().failed_auth_rate), address_of(request))
    except TooManyTries as error:
        return too_many_tries(error)
    return not_authenticated(code, detail)


def staff_with(request: HttpRequest, token: str) -> Any:
    """The member of the staff whose token this is."""
    user = staff_tokens.verify(token)
    if user is None:
        raise refuse_wrong(request, "wrong_token", "This token is wrong, has expired or was made void.")
    return user
