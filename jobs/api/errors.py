"""Every refusal as `{"error": code, "detail": text}`: what happened, and what to do about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from pydantic import BaseModel, Field

from jobs.exceptions import (
    InvalidPayload,
    RetryLater,
    TooManyTries,
    TransitionRefused,
    UnknownWorker,
    WorkerDisabled,
    WorkerNameTaken,
    WorkerOffline,
    WorkerOutdated,
    WorkerRevoked,
)
from jobs.refusal import Refusal as Refusal
from jobs.refusal import not_authenticated, too_many_tries

SHOWN = 5
"""So many of the wrong fields are named."""


class Problem(BaseModel):
    """How every refusal looks."""

    error: str = Field(description="a short code for programs")
    detail: str = Field(description="a sentence for people; with 422 it names the fields")


def refusals(*statuses: int) -> dict[int, type[Problem]]:
    """For the document: the ways in which an operation may be refused."""
    return dict.fromkeys(statuses, Problem)


NOT_FOUND = Refusal(404, "not_found", "There is no such thing here.")
NO_KEY = not_authenticated("not_authenticated", "Say who you are; the document names the ways.")
UNAVAILABLE = Refusal(
    503, "unavailable", "The database does not answer. Try again.", headers={"Retry-After": "5"}
)
BROKEN = Refusal(500, "internal", "Something is wrong with the server; its log says what.")

View = Callable[..., HttpResponse]
Meaning = Callable[[Exception], Refusal | None]
"""What clients of one API are told of an error; None: what those of any API are."""

_MEANINGS: dict[type[Exception], tuple[int, str]] = {
    InvalidPayload: (422, "invalid"),
    TransitionRefused: (409, "not_possible"),
    WorkerRevoked: (401, "key_revoked"),
    UnknownWorker: (401, "unknown_worker"),
    WorkerDisabled: (403, "worker_disabled"),
    WorkerNameTaken: (409, "name_taken"),
    WorkerOffline: (409, "worker_offline"),
    WorkerOutdated: (403, "worker_outdated"),
    PermissionDenied: (403, "forbidden"),
    RequestDataTooBig: (413, "too_large"),
}


def meaning_in_queue(error: Exception) -> Refusal | None:
    if isinstance(error, TooManyTries):
        return too_many_tries(error)
    if isinstance(error, UnreadablePostError):
        return Refusal(400, "truncated", "The body could not be read to its end.")
    for kind, (status, code) in _MEANINGS.items():
        if isinstance(error, kind):
            return Refusal(status, code, str(error))
    return None


def _meaning_anywhere(error: Exception, log: logging.Logger) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ValidationError):
        return Refusal(422, "invalid", describe(error.errors))
    if isinstance(error, AuthenticationError):
        return NO_KEY
    if isinstance(error, Http404):
        return NOT_FOUND
    if isinstance(error, HttpError) and isinstance(error.__cause__, Refusal):
        return error.__cause__
    if isinstance(error, HttpError):
        return Refusal(error.status_code, "refused", str(error))
    if isinstance(error, RetryLater):
        log.warning("a request is put off: %s", error)
        wait = {"Retry-After": str(max(1, round(error.delay.total_seconds())))}
        return Refusal(503, "later", str(error), headers=wait)
    if isinstance(error, InterfaceError | OperationalError):
        log.warning("the database refused a request: %s", str(error).strip())
        return UNAVAILABLE
    log.error("a request failed", exc_info=error)
    return BROKEN


def describe(errors: Iterable[Mapping[str, Any]]) -> str:
    """ "percent: Input should be less than or equal to 100; colour: Extra inputs are not permitted"."""
    told = [f"{_field(error['loc'])}: {error['msg']}" for error in errors]
    more = f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return "; ".join(told[:SHOWN]) + more


def _field(location: tuple[Any, ...]) -> str:
    """The path to the field as the client wrote it; ninja puts the names of our parameters in front."""
    source, *path = location
    inside = path[1:] if source in ("body", "form") and len(path) > 1 else path
    return ".".join(str(part)[:60] for part in inside) or str(source)


def install(api: NinjaAPI, *, meaning: Meaning, log: logging.Logger) -> None:
    """Whatever an operation of this API raises is answered as a refusal."""

    def answer(request: HttpRequest, error: Any) -> HttpResponse:
        return (meaning(error) or _meaning_anywhere(error, log)).as_response()

    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, answer)
