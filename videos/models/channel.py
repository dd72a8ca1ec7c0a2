"""A channel: a shelf of videos."""

from __future__ import annotations

from django.db import models
from django.db.models import Count
from django.urls import reverse


class Channel(models.Model):
    name = models.CharField(max_length=200)
    slug = models.SlugField(max_length=200, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("videos:channel", args=[self.slug])

    def summary(self) -> dict[str, int]:
        """How many videos of each status; deleted ones do not count."""
        from videos.models.video import VideoStatus

        counts = dict.fromkeys(VideoStatus.values, 0)
        kept = self.videos.kept().order_by().values_list("status").annotate(Count("pk"))
        return counts | dict(kept)
