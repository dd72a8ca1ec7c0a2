"""A rendition: one playlist of a published generation, as viewers get it."""

from __future__ import annotations

from django.db import models


class RenditionKind(models.TextChoices):
    VIDEO = "video"
    AUDIO = "audio"


class Rendition(models.Model):
    transcode = models.ForeignKey("videos.Transcode", on_delete=models.CASCADE, related_name="renditions")
    kind = models.CharField(max_length=5, choices=RenditionKind.choices)
    name = models.CharField(max_length=50, help_text="1080p, or audio_0")
    width = models.IntegerField(null=True, blank=True)
    height = models.IntegerField(null=True, blank=True)
    frame_rate = models.FloatField(null=True, blank=True)
    codecs = models.CharField(max_length=50)
    bandwidth = models.BigIntegerField(help_text="peak, bits per second")
    average_bandwidth = models.BigIntegerField()
    language = models.CharField(max_length=20, blank=True, default="")
    playlist = models.CharField(max_length=200, help_text="relative to the generation's folder")
    segments = models.IntegerField()
    bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, help_text="over the checksums of its files, in order")

    class Meta:
        ordering = ["transcode", "kind", "-height", "name"]
        constraints = [
            models.UniqueConstraint(fields=["transcode", "name"], name="videos_one_rendition_per_name")
        ]

    def __str__(self) -> str:
        return self.name
