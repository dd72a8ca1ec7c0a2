"""Somebody's own admin site that has videos and channels on it, and nothing else of ours."""

from django.contrib import admin
from django.urls import include, path

from videos.admin.channel import ChannelAdmin
from videos.admin.video import VideoAdmin
from videos.models import Channel, Video

office = admin.AdminSite(name="office")
office.register(Video, VideoAdmin)
office.register(Channel, ChannelAdmin)

urlpatterns = [path("office/", office.urls), path("", include("videos.urls"))]
