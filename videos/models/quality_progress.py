"""How far one quality of a transcode is, counted in segments that are committed."""

from __future__ import annotations

from django.db import models


class QualityStatus(models.TextChoices):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped", "skipped (larger than the source)"


class QualityProgress(models.Model):
    transcode = models.ForeignKey("videos.Transcode", on_delete=models.CASCADE, related_name="qualities")
    quality = models.CharField(max_length=20)
    status = models.CharField(max_length=12, choices=QualityStatus.choices, default=QualityStatus.PENDING)
    segments_total = models.IntegerField(default=0)
    segments_completed = models.IntegerField(default=0)
    progress_percent = models.FloatField(default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    error_message = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["transcode", "pk"]
        verbose_name_plural = "quality progress"
        constraints = [
            models.UniqueConstraint(fields=["transcode", "quality"], name="videos_one_row_per_quality"),
            models.CheckConstraint(
                name="videos_segments_in_bounds",
                condition=models.Q(
                    segments_completed__gte=0, segments_completed__lte=models.F("segments_total")
                ),
            ),
            models.CheckConstraint(
                name="videos_quality_done_iff_dated",
                condition=models.Q(status="completed", completed_at__isnull=False)
                | (~models.Q(status="completed") & models.Q(completed_at__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.quality}: {self.status}"
