"""The API as one thing: its operations, its errors, its document."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from ninja import NinjaAPI

from jobs.api import errors, files, worker
from jobs.api.bodies import StrictParser
from jobs.api.errors import NOT_FOUND, Refusal, View

VERSION = "1.0"
"""Of the contract: the first number changes when an old client would no longer work."""


class QueueAPI(NinjaAPI):
    def get_openapi_operation_id(self, operation: Any) -> str:
        area = operation.view_func.__module__.rpartition(".")[2]
        return f"{area}_{operation.view_func.__name__}"


def _make() -> NinjaAPI:
    api = QueueAPI(
        title="Sprocket",
        version=VERSION,
        description="The job queue for workers on other machines, and for scripts of the staff.",
        openapi_url=None,
        docs_url=None,
        urls_namespace="jobs_api",
        parser=StrictParser(),
    )
    errors.install(api)
    api.add_router("worker/", worker.router)
    api.add_router("worker/", files.router)
    if apps.is_installed("django.contrib.admin"):  # whose permissions and log it uses
        from jobs.api import staff

        api.add_router("", staff.router)
    return api


api = _make()


def operations() -> Iterator[URLPattern]:
    """The addresses of all operations; whatever they answer is JSON and is not to be kept."""
    for pattern in api.urls[0]:
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            yield URLPattern(pattern.pattern, _in_json(pattern.callback), name=pattern.name)


def _in_json(view: Any) -> View:
    @wraps(view)  # with csrf_exempt: who comes with a session is checked where the session is
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


def nothing_here(request: HttpRequest) -> HttpResponse:
    return NOT_FOUND.as_response()


nothing_here.csrf_exempt = True  # type: ignore[attr-defined]
