"""What the statuses of a transcode, its qualities and its video have to be: by its jobs, and by what is published.

Within the queue's transactions following.py keeps them so, step by step. This is the same from scratch, for rows that
somebody has changed by hand: `manage.py reconcile` and every worker's start call it for whatever the rules name.

The transcode is locked first: every change of its jobs waits for that lock before it is committed (following.py), so
what is read of them afterwards stays so until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Min
from django.db.models.functions import Now

from jobs import database
from jobs.invariants import RULES, is_repaired, subjects_of
from jobs.models import ACTIVE as ACTIVE_JOBS
from jobs.models import Job, Status
from videos import keeping, pipeline
from videos.media.plan import EncodePlan
from videos.models import QualityProgress, QualityStatus, Transcode, TranscodeStatus, Video, VideoStatus
from videos.models.transcode import ACTIVE
from videos.progress import plan_of

AT_ONCE = 1000
ENDED = (TranscodeStatus.FAILED, TranscodeStatus.CANCELLED)
SEEN = (TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED)
VIDEO_STATUS = {
    TranscodeStatus.PENDING: VideoStatus.PENDING,
    TranscodeStatus.PROCESSING: VideoStatus.PROCESSING,
    TranscodeStatus.FAILED: VideoStatus.FAILED,
    TranscodeStatus.CANCELLED: VideoStatus.FAILED,
}
"""Of a video that is not ready, by the status of its newest transcode."""
FINALIZE = "videos.finalize"


@dataclass(frozen=True)
class Change:
    """A row that was put right."""

    row_id: str
    kind: str
    before: str
    after: str


def mend(*, dry_run: bool) -> list[Change]:
    """Put right every transcode, quality and video that a rule names, and what follows from it."""
    changes: list[Change] = []
    seen: set[str] = set()
    while suspects := [video_id for video_id in _suspects() if video_id not in seen]:
        for video_id in suspects:
            seen.add(video_id)
            changes += _mend_video(video_id, dry_run=dry_run)
    return changes


def published_but_not_ready() -> Any:
    """What viewers get, of videos that are not called ready."""
    published = Transcode.objects.filter(status=TranscodeStatus.PUBLISHED, video__current=F("pk"))
    kept = published.filter(video__deleted_at__isnull=True).exclude(video__status=VideoStatus.READY)
    return kept.select_related("video").order_by("pk")


def _suspects() -> list[str]:
    found = dict.fromkeys(published_but_not_ready().values_list("video", flat=True))
    for check in RULES.values():
        if check.__module__.startswith("videos.invariants.") and is_repaired(check):
            for subject in subjects_of(check, limit=AT_ONCE):
                found |= dict.fromkeys(_videos_of(subject))
    return list(found)


def _videos_of(subject: Any) -> list[str]:
    if isinstance(subject, QualityProgress):
        return [str(subject.transcode.video_id)]
    if isinstance(subject, Transcode):
        return [str(subject.video_id)]
    return [str(subject.pk)] if isinstance(subject, Video) else []


def _mend_video(video_id: str, *, dry_run: bool) -> list[Change]:
    """All versions of a video and the video itself, in one transaction."""

    def write() -> list[Change]:
        with database.atomic():
            rows = Transcode.objects.filter(video=video_id).order_by("pk").select_for_update(no_key=True)
            transcodes = list(rows)
            video = Video.objects.select_for_update(no_key=True).filter(pk=video_id).first()
            changes = list(_mended(video, transcodes)) if video else []
            if dry_run:
                transaction.set_rollback(True, using=database.alias())
        return changes

    try:
        return database.when_unlocked(write)
    except IntegrityError:  # such as two active transcodes: check_invariants goes on naming it
        return []


def _mended(video: Video, transcodes: list[Transcode]) -> Iterator[Change]:
    for transcode in transcodes:
        jobs = _Jobs(transcode)
        before = transcode.status
        if _mend_transcode(transcode, video, transcodes, jobs):
            yield Change(str(transcode.pk), "transcode", before, transcode.status)
        yield from _mended_qualities(transcode, jobs)
    before = video.status
    if _mend_row(video, transcodes):
        yield Change(video.pk, "video", before, video.status)


# -- transcodes --------------------------------------------------------------------------------------------------------


class _Jobs:
    """The jobs of a locked transcode, as far as its status follows from them."""

    def __init__(self, transcode: Transcode) -> None:
        rows = Job.objects.filter(pipeline.are_stages(), workflow_id=transcode.workflow_id or "-")
        self.rows = list(rows.only("id", "type", "status", "payload", "last_error", "completed_at"))

    def having(self, *statuses: Status, types: Iterable[str] | None = None) -> list[Job]:
        return [job for job in self.rows if job.status in statuses and (types is None or job.type in types)]

    @property
    def failed(self) -> list[Job]:
        return self.having(Status.FAILED, types=pipeline.critical_types())

    @property
    def cancelled(self) -> list[Job]:
        return self.having(Status.CANCELLED, types=pipeline.critical_types())

    @property
    def chunks(self) -> list[Job]:
        return [job for job in self.rows if pipeline.encodes_picture(job.type)]


def _status_of(
    transcode: Transcode, video: Video, transcodes: list[Transcode], jobs: _Jobs
) -> TranscodeStatus:
    if _was_published(transcode, jobs):
        is_current = _current_of(video, transcodes) is transcode
        return TranscodeStatus.PUBLISHED if is_current else TranscodeStatus.RETIRED
    ended = TranscodeStatus(transcode.status) if transcode.status in ENDED else None
    if jobs.failed or jobs.cancelled:
        return ended or (TranscodeStatus.FAILED if jobs.failed else TranscodeStatus.CANCELLED)
    if jobs.having(Status.PROCESSING):
        return TranscodeStatus.PROCESSING
    if jobs.having(*ACTIVE_JOBS):
        return TranscodeStatus.PENDING
    return ended or TranscodeStatus.FAILED


def _was_published(transcode: Transcode, jobs: _Jobs | None = None) -> bool:
    finalized = jobs.having(Status.COMPLETED, types=[FINALIZE]) if jobs else []
    return transcode.published_at is not None or bool(finalized)


def _current_of(video: Video, transcodes: list[Transcode]) -> Transcode | None:
    """What viewers get: as the video says, or the newest that was published, if that is newer or it says nothing."""
    said = next((t for t in transcodes if t.pk == video.current_id), None)
    published = [t for t in transcodes if t.published_at is not None and t.files_removed_at is None]
    newest = max(published, key=lambda t: t.number, default=None)
    if said is None or (newest is not None and newest.number > said.number):
        return newest
    return said


def _mend_transcode(transcode: Transcode, video: Video, transcodes: list[Transcode], jobs: _Jobs) -> bool:
    status = _status_of(transcode, video, transcodes, jobs)
    is_seen, is_ended = status in SEEN, status in ENDED
    error = ""
    if is_ended:
        said = [job.last_error for job in jobs.failed if job.last_error]
        usual = {TranscodeStatus.CANCELLED: "The transcode was cancelled."}.get(status, "Its jobs are gone.")
        error = transcode.error or (said[0] if said else usual)
    wanted: dict[str, Any] = {"status": status, "error": error}
    if status not in ACTIVE:
        wanted["eta"] = None
    for field, needed in (
        ("ended_at", is_ended),
        ("published_at", is_seen),
        ("retired_at", status == TranscodeStatus.RETIRED),
    ):
        if needed != (getattr(transcode, field) is not None):
            wanted[field] = Now() if needed else None
    percent = 100.0 if is_seen else min(99.9, max(0.0, transcode.progress_percent))
    wanted["progress_percent"] = percent
    return _write(Transcode, transcode, wanted)


def _mended_qualities(transcode: Transcode, jobs: _Jobs) -> Iterator[Change]:
    plan = plan_of(transcode)
    if plan is None:
        return
    rows = list(QualityProgress.objects.filter(transcode=transcode).select_for_update(no_key=True))
    rendered = {*transcode.renditions.values_list("name", flat=True)}
    runs = transcode.status == TranscodeStatus.PROCESSING and any(
        job.status == Status.PROCESSING for job in jobs.chunks
    )
    for row in rows:
        before = row.status
        total = 0 if row.quality in plan.skipped else plan.total_segments
        done = _segments(transcode, row, plan, jobs, rendered)
        status = _quality_status(row, plan, done=done, total=total, runs=runs)
        wanted: dict[str, Any] = {
            "status": status,
            "segments_total": total,
            "segments_completed": done,
            "progress_percent": 100.0 * done / total if total else 0.0,
            "error_message": row.error_message if status == QualityStatus.FAILED else "",
        }
        if (status == QualityStatus.COMPLETED) != (row.completed_at is not None):
            wanted["completed_at"] = Now() if status == QualityStatus.COMPLETED else None
        if _write(QualityProgress, row, wanted):
            yield Change(f"{transcode.pk}/{row.quality}", "quality", before, row.status)


def _segments(
    transcode: Transcode, row: QualityProgress, plan: EncodePlan, jobs: _Jobs, rendered: set[str]
) -> int:
    """How many segments of a quality are there."""
    if row.quality in plan.skipped:
        return 0
    if row.quality in transcode.kept_qualities or (transcode.status in SEEN and row.quality in rendered):
        return plan.total_segments
    if row.error_message or transcode.status not in ACTIVE:  # its jobs may have been pruned
        return min(max(0, row.segments_completed), plan.total_segments)
    completed = [job.payload["chunk"] for job in jobs.chunks if job.status == Status.COMPLETED]
    return sum(len(plan.chunk(number).segments) for number in completed)


def _quality_status(
    row: QualityProgress, plan: EncodePlan, *, done: int, total: int, runs: bool
) -> QualityStatus:
    if row.quality in plan.skipped:
        return QualityStatus.SKIPPED
    if row.error_message:
        return QualityStatus.FAILED
    if done == total:
        return QualityStatus.COMPLETED
    return QualityStatus.IN_PROGRESS if runs else QualityStatus.PENDING


# -- the video ---------------------------------------------------------------------------------------------------------


def _mend_row(video: Video, transcodes: list[Transcode]) -> bool:
    if not transcodes:
        return False
    newest, current = transcodes[-1], _current_of(video, transcodes)
    if current is not None and current.status != TranscodeStatus.PUBLISHED:
        current = None
    status = VideoStatus(video.status) if video.status in VideoStatus.values else None
    if current is not None and (
        status == VideoStatus.READY or newest is current or not keeping.what_is_missing(current)
    ):
        status = VideoStatus.READY
    else:
        status = VIDEO_STATUS.get(TranscodeStatus(newest.status), VideoStatus.FAILED)
    error = (newest.error or video.error_message or "It failed.") if status == VideoStatus.FAILED else ""
    wanted: dict[str, Any] = {"status": status, "error_message": error}
    if current is not None and video.current_id != current.pk:
        wanted["current_id"] = current.pk
    first = Transcode.objects.filter(video=video.pk).aggregate(first=Min("published_at"))["first"]
    if (video.published_at is None) != (first is None):
        wanted["published_at"] = first
    return _write(Video, video, wanted)


def _write(model: Any, row: Any, wanted: dict[str, Any]) -> bool:
    """Only what differs; whether anything did."""
    changes = {name: value for name, value in wanted.items() if getattr(row, name) != value}
    if changes:
        model.objects.filter(pk=row.pk).update(**changes)
        row.refresh_from_db(fields=[*changes])
    return bool(changes)
