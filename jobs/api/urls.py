"""The addresses of the HTTP API, under a path that the site chooses: `path("api/", include("jobs.api.urls"))`."""

from django.urls import path, re_path

from jobs.api import documents, events
from jobs.api.addresses import nothing_here, operations
from jobs.api.application import api

app_name = "jobs_api"

documents.contribute_api(api)
documents.contribute("jobs:events", events.describe)

urlpatterns = [
    path("openapi.json", documents.openapi, name="openapi"),
    path("docs", documents.page, name="docs"),
    *operations(api),
    # A site that adds operations of its own below these includes them before.
    re_path(r"^(?:worker|jobs|workers|queue)(?:/[\s\S]*)?$", nothing_here),
]
