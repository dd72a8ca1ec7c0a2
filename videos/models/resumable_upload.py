"""An upload that may be interrupted and go on later. How much of it is here, its file tells (videos/resumable)."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Now

from jobs.models.fields import ulid_primary_key


class ResumableUploadQuerySet(models.QuerySet["ResumableUpload"]):
    def current(self) -> ResumableUploadQuerySet:
        return self.filter(expires_at__gt=Now())

    def unfinished(self) -> ResumableUploadQuerySet:
        return self.current().filter(finished_at__isnull=True)


class ResumableUpload(models.Model):
    id = ulid_primary_key()
    owner = models.CharField(max_length=200, help_text="the user name of the uploader")
    length = models.BigIntegerField(help_text="bytes of the whole file")
    metadata = models.TextField(
        blank=True, default="", help_text="the header Upload-Metadata, as it was sent"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    video = models.ForeignKey(
        "videos.Video", null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    is_new = models.BooleanField(default=False, help_text="its video was not there before")

    objects: ClassVar[Any] = ResumableUploadQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        indexes = [
            models.Index(
                fields=["owner"],
                name="videos_unfinished_uploads",
                condition=models.Q(finished_at__isnull=True),
            )
        ]
        constraints = [
            models.CheckConstraint(name="videos_upload_has_bytes", condition=models.Q(length__gt=0))
        ]

    def __str__(self) -> str:
        return f"upload {self.pk} of {self.owner}"
