"""Begin a generation of a video; or give one up and begin it anew, when nobody can go on with it as it was planned."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.db.models import Max

from jobs import LeaseLost, database, lifecycle
from jobs.lifecycle import Lease
from jobs.lifecycle.leases import lock
from jobs.models import Job, Status
from videos import pipeline
from videos.models import Transcode, Video, VideoStatus

log = logging.getLogger("videos")


def begin(
    video: Video,
    *,
    qualities: list[str],
    with_subtitles: bool,
    redo_subtitles: bool,
    encoder: str = "",
    based_on: int | None = None,
    kept_plan: dict[str, Any] | None = None,
) -> Transcode:
    """The next generation of a video whose row is locked, with its first job, in the caller's transaction."""
    newest = video.transcodes.aggregate(Max("number"))["number__max"] or 0
    transcode: Transcode = Transcode.objects.create(
        video=video,
        number=newest + 1,
        requested_qualities=qualities,
        with_subtitles=with_subtitles,
        redo_subtitles=redo_subtitles,
        encoder=encoder,
        based_on=based_on,
        kept_plan=kept_plan,
    )
    pipeline.start(transcode)
    Video.objects.filter(pk=video.pk).exclude(status=VideoStatus.READY).update(
        status=VideoStatus.PENDING, error_message=""
    )
    return transcode


def settle_failures(transcodes: Iterable[Transcode], *, reason: str) -> None:
    """Failed jobs of versions that a newer one replaces need nobody's decision any more. To be called before rows of
    transcodes and videos are locked, or with the jobs locked already: jobs come first."""
    flows = [transcode.workflow_id for transcode in transcodes if transcode.workflow_id]
    failed = Job.objects.failed().filter(workflow_id__in=flows).values_list("pk", flat=True)
    if flows and (ids := list(failed)):
        lifecycle.settle_failures(ids, reason=reason)


def start_over(
    transcode: Transcode, *, reason: str, encoder: str = "", lease: Lease | None = None
) -> Transcode | None:
    """Cancel what is left of an active generation and begin the same anew; None if it is not active any more.

    Bound to the lease, if one is given: raises LeaseLost when another worker owns that job, or has started over first.
    """

    def write() -> Transcode | None:
        with database.atomic():
            unfinished = Job.objects.filter(workflow_id=transcode.workflow_id).exclude(
                status=Status.COMPLETED
            )
            rows = lock(unfinished.values_list("pk", flat=True))
            if lease is not None and not (lease.job_id in rows and rows[lease.job_id].is_under(lease)):
                raise LeaseLost(lease.job_id)
            old = Transcode.objects.select_for_update(no_key=True).get(pk=transcode.pk)
            if not old.is_active:
                return None
            lifecycle.cancel(list(rows), reason=reason)
            settle_failures([old], reason=reason)
            Transcode.objects.filter(pk=old.pk).update(error=reason)
            video = Video.objects.select_for_update(no_key=True).get(pk=old.video_id)
            return begin(
                video,
                qualities=old.requested_qualities,
                with_subtitles=old.with_subtitles,
                redo_subtitles=old.redo_subtitles,
                encoder=encoder,
                based_on=old.based_on if old.kept_plan else None,
                kept_plan=old.kept_plan,
            )

    new = database.when_unlocked(write)
    if new is not None:
        log.warning(
            "video %s: generation %d is started over as generation %d: %s",
            transcode.video_id,
            transcode.number,
            new.number,
            reason,
        )
    return new
