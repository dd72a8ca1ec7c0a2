"""The addresses of the API, under a path that the site chooses: `path("api/", include("videos.api.urls"))`."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja import NinjaAPI

from videos.api import channels, errors, health, videos
from videos.refusal import Refusal

app_name = "videos_api"

api = NinjaAPI(
    title="Sprocket: videos",
    version="1.0",
    description="What the admin shows and does, for scripts. Large files: resumable uploads (tus 1.0).",
    openapi_url=None,
    docs_url=None,
    urls_namespace=app_name,
)
errors.install(api)
for _router in (videos.router, channels.router, health.router):
    api.add_router("", _router)


def _operations() -> Iterator[URLPattern]:
    """Whatever they answer is JSON and is not to be kept."""
    for pattern in api.urls[0]:
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            yield URLPattern(pattern.pattern, _in_json(pattern.callback), name=pattern.name)


def _in_json(view: Any) -> Any:
    @csrf_exempt  # who comes with a session is checked where the session is
    @functools.wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        response: HttpResponse = view(request, *arguments, **named)
        if response.status_code == 405:
            allowed = response.headers.get("Allow", "")
            response = Refusal(
                405, "method_not_allowed", "This address has other methods.", Allow=allowed
            ).answer()
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return answer


DOCUMENT = "videos.openapi.json"


@require_safe
def _document(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_written(request.path.removesuffix(DOCUMENT)), content_type="application/json")


@functools.lru_cache(maxsize=8)
def _written(prefix: str) -> str:
    """For the API under this path. Once: ninja composes it anew at each call."""
    return json.dumps(api.get_openapi_schema(path_prefix=prefix), default=str)


@csrf_exempt
def _nothing_here(request: HttpRequest) -> HttpResponse:
    return Refusal(404, "not_found", "There is no such thing here.").answer()


urlpatterns = [
    path(DOCUMENT, _document, name="document"),
    *_operations(),
    re_path(r"^(?:videos|channels)(?:/.*)?$", _nothing_here),
]
