"""What errors mean to a client of this API, beyond what they mean to any."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from ninja import NinjaAPI
from ninja.errors import HttpError

from jobs.api import errors
from jobs.exceptions import TransitionRefused
from jobs.refusal import Refusal
from videos.exceptions import ActionRefused, VideosError


def meaning(error: Exception) -> Refusal | None:
    match error:
        case HttpError(status_code=400):
            return Refusal(400, "invalid", "body: This is not JSON.")
        case ActionRefused(code="above_source" | "plan_unusable" | "published_damaged" as code):
            return Refusal(409, code, str(error))
        case VideosError() | TransitionRefused():
            return Refusal(409, "not_possible", str(error))
        case RequestDataTooBig():
            return Refusal(413, "too_large", "The body is larger than this site takes.")
        case MultiPartParserError() | SuspiciousOperation():
            return Refusal(400, "invalid", "body: This is not a form (multipart/form-data) that can be read.")
        case UnreadablePostError():
            return Refusal(400, "interrupted", "The body could not be read to its end.")
    return None


def install(api: NinjaAPI) -> None:
    errors.install(api, meaning=meaning, log=logging.getLogger("videos.api"))


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """A filter that nobody knows would find everything."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        listed = ", ".join(sorted(known))
        raise Refusal(422, "invalid", f"{unknown[0][:60]}: There is no such field; there are {listed}.")
