"""The API, for the remote workers."""

from django.urls import include, path

urlpatterns = [path("api/", include("jobs.api.urls"))]
