"""The addresses of the API, under a path that the site chooses: `path("api/", include("videos.api.urls"))`."""

from __future__ import annotations

from django.urls import path, re_path
from ninja import NinjaAPI

from jobs.api import documents
from jobs.api.addresses import nothing_here, operations
from videos.api import channels, errors, health, subtitles, videos

app_name = "videos_api"

api = NinjaAPI(
    openapi_url=None,
    docs_url=None,
    urls_namespace=app_name,
)
errors.install(api)
for _router in (videos.router, subtitles.router, channels.router, health.router):
    api.add_router("", _router)
documents.contribute_api(api)


urlpatterns = [
    # The whole document, also where a site includes this API alone or under another path than the queue's.
    path("openapi.json", documents.openapi, name="openapi"),
    path("docs", documents.page, name="docs"),
    *operations(api),
    re_path(r"^(?:videos|channels)(?:/[\s\S]*)?$", nothing_here),
]
