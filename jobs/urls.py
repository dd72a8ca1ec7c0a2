"""The addresses of the queue outside the admin, for a site to include: `path("", include("jobs.urls"))`."""

from django.urls import path

from jobs.health import view as health
from jobs.live.views import events
from jobs.metrics.views import metrics

app_name = "jobs"

urlpatterns = [
    path("api/events/", events, name="events"),
    path("health", health, name="health"),
    path("metrics", metrics, name="metrics"),
]
