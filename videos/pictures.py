"""Where the poster and the storyboard of a video are. A video may have neither: they are not critical."""

from __future__ import annotations

import functools

from django.urls import reverse

from videos import depot, storage
from videos.depot import Depot, StorageDown, StorageRefused
from videos.media.thumbnails import POSTER, STORYBOARD
from videos.models import Video

REMEMBERED = 10_000
__all__ = ["POSTER", "STORYBOARD", "picture_url"]


def picture_url(video: Video, name: str) -> str:
    """The address of a picture of the published generation; empty when there is none."""
    if video.current is None or not _exists(video.pk, video.current.number, name):
        return ""
    return reverse("videos:media", args=[video.slug, video.current.number, name])


def _exists(video_id: str, number: int, name: str) -> bool:
    kept = depot.current()
    if kept is None:
        return (storage.generation_folder(video_id, number) / name).is_file()
    try:
        _demand(kept, video_id, number, name)
    except (FileNotFoundError, StorageDown, StorageRefused):
        return False  # a page without pictures rather than none
    return True


@functools.lru_cache(maxsize=REMEMBERED)
def _demand(kept: Depot, video_id: str, number: int, name: str) -> None:
    """Asked once by each process for each picture that is there: it stays, and a page has dozens. One that is missing
    (FileNotFoundError) may still come."""
    if kept.size(storage.generation_folder(video_id, number) / name) is None:
        raise FileNotFoundError(name)
