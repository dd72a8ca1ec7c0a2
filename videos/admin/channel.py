"""Channels, with how many videos of each status they have; each number leads to those videos."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from videos.models import Channel, VideoStatus


@admin.register(Channel)
class ChannelAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "slug", "counts", "page")
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}

    class Media:
        css = {"all": ("jobs/sprocket.css", "jobs/admin.css", "videos/admin.css")}

    def get_queryset(self, request: HttpRequest) -> Any:
        kept = {
            f"{status}_count": Count(
                "videos", filter=Q(videos__status=status, videos__deleted_at__isnull=True)
            )
            for status in VideoStatus.values
        }
        return super().get_queryset(request).annotate(**kept)

    @admin.display(description="videos")
    def counts(self, channel: Any) -> SafeString:
        videos = reverse("admin:videos_video_changelist", current_app=self.admin_site.name)
        numbers = [(status, getattr(channel, f"{status}_count")) for status in VideoStatus.values]
        links = [
            (f"{videos}?channel={channel.pk}&status={status}", status, count, status)
            for status, count in numbers
            if count
        ]
        if not links:
            return format_html('<span class="sp-quiet">none yet</span>')
        return format_html(
            '<span class="v-counts">{}</span>',
            format_html_join(" ", '<a class="sp-badge" href="{}" data-status="{}">{} {}</a>', links),
        )

    @admin.display(description="address")
    def page(self, channel: Channel) -> SafeString:
        return format_html('<a href="{0}">{0}</a>', channel.get_absolute_url())

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A channel that has videos, deleted ones too, is kept by them; then there is no button that could not work."""
        if isinstance(obj, Channel) and obj.videos.exists():
            return False
        return super().has_delete_permission(request, obj)
