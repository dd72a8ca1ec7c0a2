"""Removing files that nobody needs any more: later, by a job, resumable; never the source or what is published."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now

from jobs import RetryLater, database, enqueue, lifecycle
from jobs.models import Job
from videos import conf, depot, keeping, storage
from videos.exceptions import VideoExists
from videos.models import Transcode, TranscodeStatus, Video

REMOVABLE = (TranscodeStatus.RETIRED, TranscodeStatus.FAILED, TranscodeStatus.CANCELLED)


def after_failure(transcode: Transcode) -> None:
    """In the transaction that ends a transcode badly: its files will go, at once or when nobody has retried it."""
    settings = conf.current()
    if settings.cleanup_partial_on_failure:
        plan_generation(transcode, delay=_grace(transcode))


def plan_generation(transcode: Transcode, *, delay: timedelta) -> None:
    """Remove a generation's files after a while."""
    enqueue(
        "videos.remove_files",
        video_id=transcode.video_id,
        number=transcode.number,
        delay=delay,
        unique_key=f"videos.remove:{transcode.video_id}:{transcode.number}",
    )


def plan_video(video_id: str, *, delay: timedelta) -> None:
    """Remove everything of a video whose record is deleted in this same transaction."""
    enqueue("videos.remove_files", video_id=video_id, delay=delay, unique_key=f"videos.remove:{video_id}")


def remove(video_id: str, number: int | None = None) -> None:
    """A generation that nobody needs any more, or all that is left of a purged video."""
    if number is None:
        remove_video(video_id)
    else:
        remove_generation(video_id, number)
    keeping.tidy()


def remove_generation(video_id: str, number: int) -> None:
    """First the record says that the files are gone, then they go: a crash in between leaves nothing half-alive."""
    with database.atomic():
        transcode = (
            Transcode.objects.filter(video=video_id, number=number).select_for_update(no_key=True).first()
        )
        if transcode is not None and not _may_go(transcode):
            return
        if transcode is not None and transcode.files_removed_at is None:
            Transcode.objects.filter(pk=transcode.pk).update(files_removed_at=Now())
    if transcode is not None:
        _stop_writers(transcode)
    depot.remove(storage.generation_folder(video_id, number))


def remove_video(video_id: str) -> None:
    if Video.objects.filter(pk=video_id).exists():
        raise VideoExists(f"The video {video_id} still exists; purge it, and its files go with it.")
    depot.remove(storage.video_folder(video_id))


def _may_go(transcode: Transcode) -> bool:
    """Whether it is (still) of no use; RetryLater when its time has not come."""
    if transcode.status not in REMOVABLE or Video.objects.filter(current=transcode).exists():
        return False  # it was retried since, or is published
    since = transcode.retired_at or transcode.ended_at
    left = (since + _grace(transcode) - database.read_clock()) if since else timedelta(0)
    if left > timedelta(seconds=1):
        raise RetryLater(left, f"kept for another {left}", counted=False)
    return True


def _grace(transcode: Transcode) -> timedelta:
    settings = conf.current()
    if transcode.status == TranscodeStatus.RETIRED:
        return settings.generation_grace
    return settings.failed_generation_grace if settings.keep_completed_qualities else timedelta(0)


def _stop_writers(transcode: Transcode) -> None:
    """Jobs of a transcode that is given up must not write what is being removed."""
    active = Job.objects.active().filter(workflow_id=transcode.workflow_id)
    lifecycle.cancel(
        list(active.values_list("pk", flat=True)), reason="the files of its transcode are removed"
    )
