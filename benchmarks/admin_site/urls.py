"""The admin and the pages of the videos, for the measures about them."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("jobs.urls")),
    path("", include("videos.urls")),
]
