"""A video: what people upload and watch. Its status follows its jobs; `current` is the generation that viewers get."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.urls import reverse

from jobs.models.fields import ulid_primary_key


class VideoStatus(models.TextChoices):
    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


class Visibility(models.TextChoices):
    PUBLIC = "public"
    UNLISTED = "unlisted", "unlisted (whoever has the link)"
    PRIVATE = "private", "private (staff and owner)"


class VideoQuerySet(models.QuerySet["Video"]):
    def kept(self) -> VideoQuerySet:
        return self.filter(deleted_at__isnull=True)

    def watchable(self) -> VideoQuerySet:
        """There is a published generation, whatever a retranscode is doing meanwhile."""
        return self.kept().filter(current__isnull=False)

    def listed(self) -> VideoQuerySet:
        return self.watchable().filter(visibility=Visibility.PUBLIC)

    def for_shelf(self) -> VideoQuerySet:
        """The newest first, with what a card shows. A plan is long, and no card shows it."""
        return self.select_related("current").defer("current__plan").order_by("-published_at", "-pk")


class Video(models.Model):
    id = ulid_primary_key()
    channel = models.ForeignKey("videos.Channel", on_delete=models.PROTECT, related_name="videos")
    title = models.CharField(max_length=300)
    handle = models.SlugField(max_length=200, help_text="the name that was asked for, unique in its channel")
    slug = models.SlugField(max_length=200, unique=True, help_text="its address: /v/<slug>/")
    owner = models.CharField(
        max_length=200, blank=True, default="", help_text="the user name of the uploader"
    )
    status = models.CharField(max_length=10, choices=VideoStatus.choices, default=VideoStatus.PENDING)
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PUBLIC)
    error_message = models.TextField(blank=True, default="")
    warning = models.TextField(
        blank=True, default="", help_text="published, but something was wrong with the source"
    )

    source_name = models.CharField(max_length=300, help_text="the file's name when it was uploaded")
    source_bytes = models.BigIntegerField()
    source_sha256 = models.CharField(max_length=64, db_index=True)

    duration = models.FloatField(null=True, blank=True, help_text="seconds")
    width = models.IntegerField(null=True, blank=True)
    height = models.IntegerField(null=True, blank=True)
    fps = models.FloatField(null=True, blank=True)
    video_codec = models.CharField(max_length=50, blank=True, default="")
    audio_codec = models.CharField(max_length=50, blank=True, default="")

    current = models.ForeignKey(
        "videos.Transcode", null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    published_at = models.DateTimeField(null=True, blank=True, help_text="when it first became watchable")
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[Any] = VideoQuerySet.as_manager()

    created: bool = True
    """On the video that intake.accept returns: False when it was there already."""

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["channel", "status"], name="videos_by_channel"),
            models.Index(fields=["status"], name="videos_by_status"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["channel", "handle"], name="videos_one_handle_per_channel"),
            models.CheckConstraint(
                name="videos_ready_has_generation",
                condition=~models.Q(status="ready") | models.Q(current__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("videos:watch", args=[self.slug])
