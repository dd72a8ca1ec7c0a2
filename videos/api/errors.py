"""Every refusal of the API as {"error": code, "detail": text}; what is wrong with a field names the field."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from pydantic import BaseModel, Field

from jobs.exceptions import TransitionRefused
from videos.exceptions import VideosError
from videos.refusal import Refusal

log = logging.getLogger("videos.api")

SHOWN = 5
"""So many of the wrong fields are named."""


class Problem(BaseModel):
    """How every refusal looks."""

    error: str = Field(description="a short code for programs")
    detail: str = Field(description="a sentence for people; with 422 it names the fields")


def refusals(*statuses: int) -> dict[int, type[Problem]]:
    """For the document: the ways in which an operation may be refused."""
    return dict.fromkeys(statuses, Problem)


def as_refusal(error: Exception) -> Refusal:
    """What a client is told of this error."""
    match error:
        case Refusal():
            return error
        case ValidationError():
            return Refusal(422, "invalid", describe(error.errors))
        case AuthenticationError():
            return Refusal(
                401, "not_authenticated", "Sign in, or send a staff token.", WWW_Authenticate="Bearer"
            )
        case Http404():
            return Refusal(404, "not_found", "There is no such thing here.")
        case HttpError(status_code=400):
            return Refusal(400, "invalid", "body: This is not JSON.")
        case HttpError():
            return Refusal(error.status_code, "refused", str(error))
        case VideosError() | TransitionRefused():
            return Refusal(409, "not_possible", str(error))
        case RequestDataTooBig():
            return Refusal(413, "too_large", "The body is larger than this site takes.")
        case MultiPartParserError() | SuspiciousOperation():
            return Refusal(400, "invalid", "body: This is not a form (multipart/form-data) that can be read.")
        case UnreadablePostError():
            return Refusal(400, "interrupted", "The body could not be read to its end.")
        case InterfaceError() | OperationalError():
            log.warning("the database refused a request: %s", str(error).strip())
            return Refusal(503, "unavailable", "The database does not answer. Try again.", Retry_After="5")
    log.error("a request failed", exc_info=error)
    return Refusal(500, "internal", "Something is wrong with the server; its log says what.")


def describe(errors: Iterable[Mapping[str, Any]]) -> str:
    told = [f"{_field(error['loc'])}: {error['msg']}" for error in errors]
    more = f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return "; ".join(told[:SHOWN]) + more


def _field(location: tuple[Any, ...]) -> str:
    """The path to the field as the client wrote it; ninja puts the names of our parameters in front."""
    source, *path = location
    inside = path[1:] if source in ("body", "form") and len(path) > 1 else path
    return ".".join(str(part)[:60] for part in inside) or str(source)


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """A filter that nobody knows would find everything."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        listed = ", ".join(sorted(known))
        raise Refusal(422, "invalid", f"{unknown[0][:60]}: There is no such field; there are {listed}.")


def install(api: NinjaAPI) -> None:
    def answer(request: HttpRequest, error: Any) -> HttpResponse:
        return as_refusal(error).answer()

    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, answer)
