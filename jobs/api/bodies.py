"""Reads a JSON body before anything else looks at it: its size, its depth, and that it is JSON that can be stored.

The limit is applied while reading, since a chunked request does not say how long it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

from django.http import HttpRequest, HttpResponse
from ninja.decorators import decorate_view
from ninja.parser import Parser

from jobs.api.errors import View
from jobs.refusal import Refusal

KIB = 1024
DEEPEST = 32
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


def json_body(limit: int | Callable[[], int]) -> Callable[[Any], Any]:
    """For an operation with a JSON body of at most so many bytes. It is read once it is known who sends it."""

    def decorate(run: View) -> View:
        @wraps(run)
        def with_body(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                bound(request, limit() if callable(limit) else limit)
            except Refusal as refusal:
                return refusal.as_response()
            return run(request, *args, **kwargs)

        return with_body

    return decorate_view(decorate)


def bound(request: HttpRequest, limit: int) -> None:
    """Whoever reads the body gets a Refusal (413) if it has more bytes than this. Raises Refusal."""
    if not (request.META.get("CONTENT_LENGTH") or "0").isdecimal():
        raise Refusal(400, "bad_length", "Content-Length is not a number.")
    request._stream = Bounded(request, limit)  # type: ignore[assignment]  # where Django reads a body from


class Bounded:
    """The body of a request, which gives no more than the limit."""

    def __init__(self, request: HttpRequest, limit: int) -> None:
        self._stream = request._stream
        self._declared = request.META.get("CONTENT_LENGTH") or "0"
        self._limit = limit

    def seekable(self) -> bool:
        """Django 6.1 asks, to measure what can be rewound. This is measured by read()."""
        return False

    def read(self, size: int = -1) -> bytes:
        too_large = Refusal(413, "too_large", f"The body may have {self._limit:,} bytes.")
        if len(self._declared) > 18 or int(self._declared) > self._limit:
            raise too_large
        raw: bytes = self._stream.read(self._limit + 1 if size < 0 else min(size, self._limit + 1))
        if len(raw) > self._limit:
            raise too_large
        return raw

    def close(self) -> None:
        self._stream.close()


def parse(raw: bytes) -> Any:
    """The value, or a Refusal that says what is wrong with the text."""
    try:
        text = raw.decode()
        if depth(text) > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST} levels")
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(422, "invalid", f"body: This is not JSON: {_reason(error)}.") from None


def depth(text: str) -> int:
    """How deep objects and lists are nested, counted without following them; stops where it is too deep."""
    deepest = level = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub("", text)):
        level += 1 if bracket[0] in "[{" else -1
        deepest = max(deepest, level)
        if deepest > DEEPEST:
            break
    return deepest


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _reason(error: Exception) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:200]


class StrictParser(Parser):
    """As ninja's, which takes anything for JSON that Python does. It hides what is raised here; errors.py finds it."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type != "application/json":
            raise Refusal(415, "not_json", "Send the body as JSON, with Content-Type: application/json.")
        return parse(request.body)
