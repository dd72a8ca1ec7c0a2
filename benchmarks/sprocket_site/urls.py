"""The admin, for the measures about its pages; the API, for those about remote workers."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("api/", include("jobs.api.urls"))]
