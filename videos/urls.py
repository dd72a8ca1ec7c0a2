"""The addresses of the pipeline's pages."""

from django.urls import path

from videos import views
from videos.resumable import views as resumable

app_name = "videos"

urlpatterns = [
    path("v/<slug:slug>/", views.watch, name="watch"),
    path("v/<slug:slug>/status", views.status, name="status"),
    path("v/<slug:slug>/events", views.events, name="events"),
    path("v/<slug:slug>/captions/<slug:language>.vtt", views.captions, name="captions"),
    path("v/<slug:slug>/g<int:number>/<path:name>", views.media, name="media"),
    path("c/<slug:slug>/", views.channel, name="channel"),
    path("api/uploads/", resumable.begin, name="uploads"),
    path("api/uploads/<str:upload_id>", resumable.upload, name="upload"),
]
