"""GET /metrics: for whoever has the token, or looks in as staff. For anybody else it does not exist."""

from __future__ import annotations

from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.crypto import constant_time_compare

from jobs import conf, throttle
from jobs.exceptions import TooManyTries
from jobs.metrics.exposition import CONTENT_TYPE, render
from jobs.metrics.readings import read
from jobs.rate_limits import Limit, forwarded_address


def metrics(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    try:
        refusal = _refusal(request)
        if refusal is not None:
            return refusal
        text = render(read())
    except DatabaseError:
        return HttpResponse("The database does not answer.\n", status=503, content_type="text/plain")
    return HttpResponse(text, content_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})


def _refusal(request: HttpRequest) -> HttpResponse | None:
    """None: it may be read."""
    token = conf.current().metrics_token
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if token and scheme.lower() == "bearer":
        if constant_time_compare(given.strip(), token):
            return None
        return _wrong(request)
    user = getattr(request, "user", None)
    if user is not None and user.is_active and user.is_staff and user.has_perm("jobs.view_job"):
        return None
    if not token:
        raise Http404
    return _unauthorised()


def _wrong(request: HttpRequest) -> HttpResponse:
    """A guess counts; the right token is never limited, whoever else guesses from the same address."""
    settings = conf.current()
    address = forwarded_address(
        request.META.get("REMOTE_ADDR") or "",
        request.headers.get("X-Forwarded-For", ""),
        settings.trusted_proxies,
    )
    try:
        throttle.take(Limit("wrong key", settings.failed_auth_rate), address)
    except TooManyTries as tries:
        return HttpResponse(
            "Too many wrong tokens.\n",
            status=429,
            content_type="text/plain",
            headers={"Retry-After": str(tries.retry_after)},
        )
    return _unauthorised()


def _unauthorised() -> HttpResponse:
    return HttpResponse(
        "Send JOBS['METRICS_TOKEN'] as a bearer token.\n",
        status=401,
        content_type="text/plain",
        headers={"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"},
    )
