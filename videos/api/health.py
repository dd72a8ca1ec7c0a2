"""Whether the site can take and process videos: 200, or 503 with the reasons. Numbers are for the staff alone."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from django.db import Error as DatabaseError
from django.db.models import Count
from django.http import HttpRequest
from ninja import Router, Status

from jobs import database
from jobs.refusal import Refusal
from videos import conf, storage
from videos.access import VIEW
from videos.api.schemas import Counts, Health, Processing, Storage
from videos.identity import identify
from videos.models import ResumableUpload, Transcode, TranscodeStatus, Video, VideoStatus

router = Router(tags=["health"])

DAY = timedelta(days=1)


@router.get(
    "health",
    response={200: Health, 503: Health},
    auth=None,
    summary="Is it well",
    operation_id="videos_health",
)
def health(request: HttpRequest) -> Status[Health]:
    """Asks the database and the disk; everybody may ask, numbers are told to staff who may see videos."""
    reasons: list[str] = []
    room = _storage(reasons)
    processing = _processing(reasons)
    may_see = processing is not None and _is_staff(request)
    return Status(
        503 if reasons else 200,
        Health(
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
        reasons.append("The folder of the videos does not answer.")
        return None
    if not writable:
        reasons.append("The folder of the videos cannot be written to.")
    if free < conf.current().min_free_bytes:
        reasons.append("There is too little room left for videos.")
    return Storage(free_bytes=free, total_bytes=total)


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
        reasons.append("The database does not answer.")
        return None


def _is_staff(request: HttpRequest) -> bool:
    try:
        identify(request, *VIEW)
    except Refusal:
        return False
    return True
