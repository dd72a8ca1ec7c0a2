"""Whether the site can take and process videos: 200, or 503 with the reasons. Numbers are for the staff alone."""

from __future__ import annotations

import functools
import os
import time
from datetime import timedelta
from typing import Any

from django.db import Error as DatabaseError
from django.db.models import Count
from django.http import HttpRequest
from ninja import Router, Status

from jobs import database
from jobs.refusal import Refusal
from videos import conf, depot, storage
from videos.access import VIEW
from videos.api.schemas import Counts, Processing, Storage, VideosHealth
from videos.depot import Depot, StorageDown, StorageRefused
from videos.identity import identify
from videos.models import ResumableUpload, Transcode, TranscodeStatus, Video, VideoStatus

router = Router(tags=["health"])

FOLDER_AWAY = "The folder of the videos does not answer."
FOLDER_READ_ONLY = "The folder of the videos cannot be written to."
LITTLE_ROOM = "There is too little room left for videos."
STORAGE_AWAY = "The storage of the videos does not answer."
DATABASE_AWAY = "The database does not answer."

DAY = timedelta(days=1)
REMEMBERED = 10.0
"""Seconds for which a process remembers whether the storage answers."""


@router.get(
    "health",
    response={200: VideosHealth, 503: VideosHealth},
    auth=None,
    summary="Is it well",
    operation_id="videos_health",
)
def health(request: HttpRequest) -> Status[VideosHealth]:
    """Asks the database, the disk and the storage; everybody may ask, numbers are told to staff who may see videos."""
    reasons: list[str] = []
    room = _storage(reasons)
    _kept_elsewhere(reasons)
    processing = _processing(reasons)
    may_see = processing is not None and _is_staff(request)
    return Status(
        503 if reasons else 200,
        VideosHealth(
            status="failing" if reasons else "ok",
            reasons=reasons,
            storage=room if may_see else None,
            processing=processing if may_see else None,
        ),
    )


def _storage(reasons: list[str]) -> Storage | None:
    try:
        free, total = storage.capacity()
        place = storage.root()
        while not place.is_dir():
            place = place.parent
        writable = os.access(place, os.W_OK)
    except OSError:
        reasons.append(FOLDER_AWAY)
        return None
    if not writable:
        reasons.append(FOLDER_READ_ONLY)
    if free < conf.current().min_free_bytes:
        reasons.append(LITTLE_ROOM)
    return Storage(free_bytes=free, total_bytes=total)


def _kept_elsewhere(reasons: list[str]) -> None:
    """Not more than once in a while: everybody may ask, and a bucket has its price."""
    kept = depot.current()
    if kept is not None and not _answers(kept, int(time.monotonic() / REMEMBERED)):
        reasons.append(STORAGE_AWAY)


@functools.lru_cache(maxsize=1)
def _answers(kept: Depot, moment: int) -> bool:
    try:
        kept.size(storage.videos_folder() / "health")
    except (StorageDown, StorageRefused):
        return False
    return True


def _processing(reasons: list[str]) -> Processing | None:
    try:
        since = database.now_minus(DAY)
        counts: dict[str, Any] = dict.fromkeys(VideoStatus.values, 0)
        counts |= dict(Video.objects.kept().order_by().values_list("status").annotate(Count("pk")))
        failed = Transcode.objects.filter(status=TranscodeStatus.FAILED, ended_at__gte=since)
        return Processing(
            videos=Counts(**counts),
            active_transcodes=Transcode.objects.active().count(),
            unfinished_uploads=ResumableUpload.objects.unfinished().count(),
            published_last_day=Transcode.objects.filter(published_at__gte=since).count(),
            failed_last_day=failed.count(),
        )
    except DatabaseError:
        reasons.append(DATABASE_AWAY)
        return None


def _is_staff(request: HttpRequest) -> bool:
    try:
        identify(request, *VIEW)
    except Refusal:
        return False
    return True
