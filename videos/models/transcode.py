"""A transcode, also called a generation: one (re)encoding of a video, in a folder of its own. Never overwritten."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from jobs.models.fields import ULIDField


class TranscodeStatus(models.TextChoices):
    PENDING = "pending"
    PROCESSING = "processing"
    PUBLISHED = "published"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RETIRED = "retired", "retired (a newer one is published)"


ACTIVE = (TranscodeStatus.PENDING, TranscodeStatus.PROCESSING)


class Step(models.TextChoices):
    PROBE = "probe"
    THUMBNAIL = "thumbnail"
    TRANSCODE = "transcode"
    MASTER_PLAYLIST = "master_playlist"
    FINALIZE = "finalize"


class TranscodeQuerySet(models.QuerySet["Transcode"]):
    def active(self) -> TranscodeQuerySet:
        return self.filter(status__in=ACTIVE)

    def servable(self) -> TranscodeQuerySet:
        """Published now, or not long ago: somebody may be watching it."""
        return self.filter(
            status__in=(TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED), files_removed_at__isnull=True
        )


class Transcode(models.Model):
    video = models.ForeignKey("videos.Video", on_delete=models.CASCADE, related_name="transcodes")
    number = models.PositiveIntegerField(help_text="1 for the first generation of the video")
    status = models.CharField(max_length=10, choices=TranscodeStatus.choices, default=TranscodeStatus.PENDING)
    workflow_id = ULIDField(blank=True, default="", db_index=True)
    requested_qualities = models.JSONField(
        default=list, blank=True, help_text="the ones to encode; empty: every rung the source allows"
    )
    with_subtitles = models.BooleanField(default=True)
    text_tracks = models.JSONField(default=list, blank=True, help_text="those of the source, found at probe")
    redo_subtitles = models.BooleanField(default=False, help_text="although there are some already")

    based_on = models.PositiveIntegerField(
        null=True, blank=True, help_text="the generation whose finished parts are taken over where they fit"
    )
    kept_plan = models.JSONField(
        null=True,
        blank=True,
        help_text="how the qualities were encoded that are taken over from it as they are",
    )

    plan = models.JSONField(null=True, blank=True, help_text="how every chunk is encoded, pinned at probe")
    frames_found = models.IntegerField(
        null=True, blank=True, help_text="set where the source has fewer pictures than planned"
    )
    encoder = models.CharField(max_length=50, blank=True, default="")
    current_step = models.CharField(max_length=20, choices=Step.choices, default=Step.PROBE)
    work_total = models.FloatField(default=0, help_text="in pixels to encode")
    work_done = models.FloatField(default=0, help_text="of it, what completed jobs have done")
    progress_percent = models.FloatField(default=0, help_text="the highest value ever reached")
    eta = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True, default="")

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    published_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="failed or cancelled")
    retired_at = models.DateTimeField(
        null=True, blank=True, help_text="since then nobody new is sent to its files"
    )
    files_removed_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[Any] = TranscodeQuerySet.as_manager()

    class Meta:
        ordering = ["video", "number"]
        constraints = [
            models.UniqueConstraint(fields=["video", "number"], name="videos_one_generation_per_number"),
            models.UniqueConstraint(
                fields=["video"],
                name="videos_one_active_transcode",
                condition=models.Q(status__in=["pending", "processing"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.video_id} generation {self.number}: {self.status}"

    @property
    def kept_qualities(self) -> list[str]:
        """Those that are taken over from the generation it is based on, largest first."""
        return [rendition["name"] for rendition in (self.kept_plan or {}).get("renditions", [])]

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE
