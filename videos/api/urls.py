"""The addresses of the API, under a path that the site chooses: `path("api/", include("videos.api.urls"))`."""

from __future__ import annotations

import functools
import json

from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path
from django.views.decorators.http import require_safe
from ninja import NinjaAPI

from jobs.api.addresses import nothing_here, operations
from videos.api import channels, errors, health, videos

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


DOCUMENT = "videos.openapi.json"


@require_safe
def _document(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_written(request.path.removesuffix(DOCUMENT)), content_type="application/json")


@functools.lru_cache(maxsize=8)
def _written(prefix: str) -> str:
    """For the API under this path. Once: ninja composes it anew at each call."""
    return json.dumps(api.get_openapi_schema(path_prefix=prefix), default=str)


urlpatterns = [
    path(DOCUMENT, _document, name="document"),
    *operations(api),
    re_path(r"^(?:videos|channels)(?:/.*)?$", nothing_here),
]
