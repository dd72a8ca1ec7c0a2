"""The pipeline in the Django admin: the verbs of intervening.py as actions. Nothing here writes a status itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.admin import ReadOnlyAdmin, ReadOnlyInline, badge
from jobs.exceptions import TransitionRefused
from videos import intervening, subtitling
from videos.exceptions import UploadRefused, VideosError
from videos.models import Channel, QualityProgress, Rendition, Subtitle, SubtitleSource, Transcode, Video


@admin.register(Channel)
class ChannelAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "slug", "counts")
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}

    @admin.display(description="videos")
    def counts(self, channel: Channel) -> str:
        return ", ".join(f"{count} {status}" for status, count in channel.summary().items() if count)


class TranscodeInline(ReadOnlyInline):
    model = Transcode
    fields = (
        "number",
        "status",
        "current_step",
        "progress_percent",
        "encoder",
        "created_at",
        "published_at",
        "error",
    )
    readonly_fields = fields
    show_change_link = True


class SubtitleInline(ReadOnlyInline):
    model = Subtitle
    fields = ("language", "label", "source", "stored_at")
    readonly_fields = fields
    show_change_link = True


@admin.register(Video)
class VideoAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = (
        "title",
        "channel",
        "state",
        "visibility",
        "progress",
        "duration",
        "created_at",
        "is_deleted",
    )
    list_filter = ("status", "visibility", "channel", ("deleted_at", admin.EmptyFieldListFilter))
    search_fields = ("title", "slug", "=id", "=source_sha256")
    list_select_related = ("channel",)
    inlines = (TranscodeInline, SubtitleInline)
    actions = ("retry", "retranscode", "cancel", "delete_softly", "restore", "purge")
    people_edit = ("title", "visibility", "owner", "channel")

    @admin.display(description="status", ordering="status")
    def state(self, video: Video) -> SafeString:
        return badge(video.status)

    @admin.display
    def progress(self, video: Video) -> SafeString:
        newest = video.transcodes.order_by("-number").first()
        return format_html(
            '<progress max="100" value="{}" aria-label="progress"></progress>',
            newest.progress_percent if newest else 0,
        )

    @admin.display(description="deleted", boolean=True)
    def is_deleted(self, video: Video) -> bool:
        return video.deleted_at is not None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # a video is made of a file: intake.accept

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # rows alone would leave the files: purge

    def has_purge_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("videos.delete_video")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [field.name for field in Video._meta.fields if field.name not in self.people_edit]

    @admin.action(description="Retry what has failed", permissions=["change"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Video]) -> None:
        actor = request.user.get_username()
        self._act(request, queryset, "retried", lambda video: intervening.retry(video, actor=actor))

    @admin.action(description="Retranscode", permissions=["change"])
    def retranscode(self, request: HttpRequest, queryset: QuerySet[Video]) -> None:
        self._act(request, queryset, "being transcoded anew", intervening.retranscode)

    @admin.action(description="Cancel the running transcode", permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Video]) -> None:
        actor = request.user.get_username()
        self._act(request, queryset, "cancelled", lambda video: intervening.cancel(video, actor=actor))

    @admin.action(description="Delete (can be restored)", permissions=["change"])
    def delete_softly(self, request: HttpRequest, queryset: QuerySet[Video]) -> None:
        actor = request.user.get_username()
        self._act(request, queryset, "deleted", lambda video: intervening.delete(video, actor=actor))

    @admin.action(description="Restore", permissions=["change"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Video]) -> None:
        actor = request.user.get_username()
        self._act(request, queryset, "restored", lambda video: intervening.restore(video, actor=actor))

    @admin.action(description="Purge: remove for good, with all files", permissions=["purge"])
    def purge(self, request: HttpRequest, queryset: QuerySet[Video]) -> None:
        actor = request.user.get_username()
        self._act(request, queryset, "purged", lambda video: intervening.purge(video, actor=actor))

    def _act(
        self, request: HttpRequest, queryset: QuerySet[Video], done: str, verb: Callable[[Video], Any]
    ) -> None:
        """Each video by itself: one that refuses does not keep the others from it."""
        changed = []
        for video in queryset:
            before = Video(pk=video.pk, title=video.title)  # a purged video has no row for the log to name
            try:
                verb(video)
            except (VideosError, TransitionRefused) as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
            else:
                changed.append(before)
        if changed and request.user.is_authenticated:
            LogEntry.objects.log_actions(request.user.pk, changed, CHANGE, done, single_object=False)
        if changed:
            self.message_user(request, f"{len(changed)} video(s) {done}.")


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
    search_fields = ("=video__id", "video__title", "=workflow_id")
    inlines = (QualityInline, RenditionInline)


@admin.register(QualityProgress)
class QualityProgressAdmin(ReadOnlyAdmin):
    list_display = ("transcode", "quality", "status", "segments_completed", "segments_total", "error_message")
    list_filter = ("status", "quality")


@admin.register(Rendition)
class RenditionAdmin(ReadOnlyAdmin):
    list_display = ("transcode", "name", "kind", "codecs", "bandwidth", "bytes")
    list_filter = ("kind", "name")


class SubtitleForm(forms.ModelForm):  # type: ignore[type-arg]
    """What is typed here is an upload like any other: read, made safe, written anew."""

    class Meta:
        model = Subtitle
        fields = ("video", "language", "label", "webvtt")

    def clean_webvtt(self) -> str:
        try:
            return subtitling.rewritten(self.cleaned_data["webvtt"].encode())
        except UploadRefused as refusal:
            raise ValidationError(str(refusal)) from refusal


@admin.register(Subtitle)
class SubtitleAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    form = SubtitleForm
    list_display = ("video", "language", "source", "stored_at")
    list_filter = ("source", "language")
    raw_id_fields = ("video",)

    def save_model(self, request: HttpRequest, obj: Subtitle, form: Any, change: bool) -> None:
        obj.source = SubtitleSource.UPLOADED
        super().save_model(request, obj, form, change)
