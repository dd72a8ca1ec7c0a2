"""Make the videos' records agree with the disk: part of `manage.py reconcile`, and of every worker's start.

Jobs whose files exist are completed, and jobs whose files are gone queued again, by the queue itself (artifacts.py).
Here: ready videos whose published files are missing, videos whose status is not that of their jobs, and
folders that belong to nobody.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db.models import F
from django.utils import timezone

from jobs import database
from jobs.reconcile import Finding, also_repairs
from jobs.ulid import is_ulid
from videos import depot, intervening, keeping, statuses, storage, toolchains
from videos.depot import Depot
from videos.exceptions import VideosError
from videos.media.encoders import SOFTWARE
from videos.models import RenditionKind, ResumableUpload, Transcode, TranscodeStatus, Video, VideoStatus
from videos.resumable import uploads

log = logging.getLogger("videos.reconcile")

MENDED = "as its jobs and what is published say"
SETTLED = timedelta(hours=1)
"""A folder younger than this may belong to an upload whose transaction is not committed yet."""


@also_repairs
def repair_videos(dry_run: bool) -> list[Finding]:
    if not dry_run:
        keeping.tidy()
        for transcode in Transcode.objects.active().exclude(encoder=SOFTWARE).defer("plan"):
            toolchains.watch(transcode)  # should whoever did it have failed
        for upload_id in uploads.expired():
            uploads.remove_expired(upload_id, turn=0)
    changed = statuses.mend(dry_run=dry_run)
    findings = [Finding(one.row_id, one.kind, one.before, one.after, MENDED) for one in changed]
    return [*findings, *_ready_without_files(dry_run)]


def _published() -> Any:
    """Every generation that viewers get."""
    current = Transcode.objects.filter(status=TranscodeStatus.PUBLISHED, video__current=F("pk"))
    return current.filter(video__deleted_at__isnull=True).select_related("video").order_by("pk")


def _ready_without_files(dry_run: bool) -> Iterator[Finding]:
    """Encode them again from the source; what is left of the published generation is served meanwhile."""
    for transcode in _published().filter(video__status=VideoStatus.READY).iterator():
        video, gap = transcode.video, keeping.what_is_missing(transcode)
        if not gap or video.transcodes.active().exists():
            continue
        if depot.size_of(storage.source(video)) is None:
            log.error("video %s: %s, and its source is gone too; restore both from a backup", video.pk, gap)
        elif dry_run or _encode_again(transcode, gap):
            yield Finding(video.pk, "video", VideoStatus.READY, VideoStatus.PENDING, gap)


def _encode_again(transcode: Transcode, gap: str) -> bool:
    video = transcode.video
    log.error("video %s is published, but %s; it is encoded again", video.pk, gap)
    try:
        with database.atomic():
            unchanged = Video.objects.kept().filter(pk=video.pk, status=VideoStatus.READY, current=transcode)
            if not unchanged.update(status=VideoStatus.PENDING):
                return False
            if transcode.kept_plan:  # what was taken over is not known by the chunk
                names = transcode.renditions.filter(kind=RenditionKind.VIDEO).values_list("name", flat=True)
                intervening.retranscode(video, qualities=list(names))
            else:
                intervening.retranscode(video, qualities=transcode.requested_qualities, repairing=transcode)
    except VideosError as refusal:
        log.error("video %s stays as it is: %s", video.pk, refusal)
        return False
    return True


# -- folders that belong to nobody -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Orphan:
    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def find_orphans() -> Iterator[Orphan]:
    """Folders below ROOT that no record knows, old enough to be nobody's work in progress."""
    for upload in storage.uploads_on_disk():
        if _is_settled(upload) and not ResumableUpload.objects.filter(pk=upload.name).exists():
            yield Orphan(upload, "an upload that was never finished")
    kept = depot.current()
    for video_id in storage.videos_on_disk() if kept is None else _videos_in(kept):
        folder = storage.video_folder(video_id)
        if not Video.objects.filter(pk=video_id).exists():
            if _is_settled(folder):
                yield Orphan(folder, "there is no such video")
            continue
        known = dict(Transcode.objects.filter(video=video_id).values_list("number", "files_removed_at"))
        generations = (
            storage.generations_on_disk(video_id)
            if kept is None
            else storage.generations_among(kept.folders(folder))
        )
        for number, generation in generations.items():
            if number not in known:
                yield Orphan(generation, "the video has no such generation")
            elif known[number] is not None:
                yield Orphan(generation, "the generation was removed")


def _videos_in(kept: Depot) -> list[str]:
    return [folder.name for folder in kept.folders(storage.videos_folder()) if is_ulid(folder.name)]


def _is_settled(folder: Path) -> bool:
    kept = depot.current()
    if kept is not None and storage.videos_folder() in folder.parents:
        changed = kept.changed(folder)
        return changed is None or timezone.now() - changed > SETTLED
    newest = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
    return time.time() - newest > SETTLED.total_seconds()
