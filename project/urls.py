"""The site's addresses."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.utils.functional import lazy
from django.views.generic import RedirectView

from project.views import home

admin.site.site_header = admin.site.site_title = "Sprocket"

urlpatterns = [
    path("", home, name="home"),
    path("favicon.ico", RedirectView.as_view(url=lazy(static, str)("videos/icon.svg"))),
    path("admin/", admin.site.urls),
    path("api/", include("jobs.api.urls")),
    path("", include("jobs.urls")),
    path("", include("videos.urls")),
    path("api/", include("videos.api.urls")),
]
