"""Where the poster and the storyboard of a video are. A video may have neither: they are not critical."""

from __future__ import annotations

from django.urls import reverse

from videos import storage
from videos.media.thumbnails import POSTER, STORYBOARD
from videos.models import Video

__all__ = ["POSTER", "STORYBOARD", "picture_url"]


def picture_url(video: Video, name: str) -> str:
    """The address of a picture of the published generation; empty when there is none."""
    if video.current is None or not (storage.generation(video.current) / name).is_file():
        return ""
    return reverse("videos:media", args=[video.slug, video.current.number, name])
