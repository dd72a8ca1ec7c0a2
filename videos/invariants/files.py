"""What is on the disk: for `manage.py check_invariants` alone, which takes the time to look."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import F

from jobs.invariants import rule
from videos import depot, keeping, storage
from videos.models import Transcode, Video, VideoStatus
from videos.statuses import published_but_not_ready


@rule(
    "the source of every video is on the disk, as large as it was uploaded",
    on_disk=True,
    by_hand="put the source back, from a backup",
)
def _sources() -> Iterator[str]:
    for video in Video.objects.order_by("pk").iterator():
        source = storage.source(video)
        size = depot.size_of(source)
        if size != video.source_bytes and Video.objects.filter(pk=video.pk).exists():
            yield f"{source} " + ("is missing" if size is None else f"has {size:,} bytes")


@rule("a ready video has all files of its generation", on_disk=True)
def _published() -> Iterator[str]:
    ready = Transcode.objects.filter(video__current=F("pk"), video__status=VideoStatus.READY)
    for transcode in ready.defer("plan").order_by("pk").iterator():
        gap = keeping.what_is_missing(transcode)
        if gap and ready.filter(pk=transcode.pk).exists():  # it may have been replaced meanwhile
            yield f"{transcode}: {gap}"


@rule("a video is ready when its published generation has all files", on_disk=True)
def _ready() -> Iterator[str]:
    for transcode in published_but_not_ready().iterator():
        if (
            not keeping.what_is_missing(transcode)
            and published_but_not_ready().filter(pk=transcode.pk).exists()
        ):
            yield f"{transcode.video_id} is {transcode.video.status}, and {transcode} is whole"
