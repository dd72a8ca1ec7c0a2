"""Subtitles of a video in one language, as WebVTT."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models


class SubtitleSource(models.TextChoices):
    UPLOADED = "uploaded"
    EMBEDDED = "embedded", "embedded in the source"
    RECOGNISED = "recognised", "recognised speech"


class Subtitle(models.Model):
    video = models.ForeignKey("videos.Video", on_delete=models.CASCADE, related_name="subtitles")
    language = models.CharField(
        max_length=20,
        validators=[
            RegexValidator(r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*\Z", "Use a tag such as en or pt-BR.")
        ],
        help_text="such as en or pt-BR; und: not known",
    )
    label = models.CharField(max_length=100, blank=True, default="")
    source = models.CharField(max_length=10, choices=SubtitleSource.choices)
    webvtt = models.TextField()
    stored_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["language"]
        constraints = [
            models.UniqueConstraint(fields=["video", "language"], name="videos_one_subtitle_per_language")
        ]

    def __str__(self) -> str:
        return f"{self.language} ({self.source})"

    @property
    def file_name(self) -> str:
        return self.language.lower()
