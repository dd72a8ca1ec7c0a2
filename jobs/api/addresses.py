"""The addresses of an API: whatever they answer is JSON, and is not to be kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI

from jobs.api.errors import NOT_FOUND, Refusal, View


def operations(api: NinjaAPI) -> Iterator[URLPattern]:
    for pattern in api.urls[0]:
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            yield URLPattern(pattern.pattern, _in_json(pattern.callback), name=pattern.name)


def _in_json(view: Any) -> View:
    @csrf_exempt  # who comes with a session is checked where the session is
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = view(request, *args, **kwargs)
        if response.status_code == 405:
            allowed = {"Allow": response.headers.get("Allow", "")}
            response = Refusal(
                405, "method_not_allowed", "This address has other methods.", headers=allowed
            ).as_response()
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return answer


@csrf_exempt
def nothing_here(request: HttpRequest) -> HttpResponse:
    return NOT_FOUND.as_response()
