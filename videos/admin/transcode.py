"""Generations with their qualities and renditions: records to look at, linked from the page of their video."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from jobs.admin import ReadOnlyAdmin, ReadOnlyInline
from videos.models import QualityProgress, Rendition, Transcode


class QualityInline(ReadOnlyInline):
    model = QualityProgress
    fields = (
        "quality",
        "status",
        "segments_completed",
        "segments_total",
        "progress_percent",
        "error_message",
    )


class RenditionInline(ReadOnlyInline):
    model = Rendition
    fields = ("name", "kind", "width", "height", "codecs", "bandwidth", "average_bandwidth", "bytes")


@admin.register(Transcode)
class TranscodeAdmin(ReadOnlyAdmin):
    list_display = ("video", "number", "status", "current_step", "progress_percent", "created_at", "error")
    list_filter = ("status",)
    list_select_related = ("video",)
    show_full_result_count = False
    search_fields = ("=video__id", "video__title", "=workflow_id")
    inlines = (QualityInline, RenditionInline)


class DetailAdmin(ReadOnlyAdmin):
    """Reached from a generation; the index of the admin would only be longer with it."""

    list_select_related = ("transcode",)
    show_full_result_count = False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False


@admin.register(QualityProgress)
class QualityProgressAdmin(DetailAdmin):
    list_display = ("transcode", "quality", "status", "segments_completed", "segments_total", "error_message")
    list_filter = ("status",)


@admin.register(Rendition)
class RenditionAdmin(DetailAdmin):
    list_display = ("transcode", "name", "kind", "codecs", "bandwidth", "bytes")
    list_filter = ("kind",)
