"""What people do to videos: retranscode, retry, delete, restore, purge. Admin, API and commands call these verbs.

Jobs are changed before the video's own row is, as everywhere (see following.py); each verb is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from django.db import IntegrityError
from django.db.models import Q
from django.db.models.functions import Now

from jobs import conf as queue_settings
from jobs import database, lifecycle
from jobs.models import Job, Status
from videos import conf, depot, generations, intake, keeping, removal, reusing, storage
from videos.depot import StorageDown, StorageRefused
from videos.exceptions import ActionRefused, AlreadyTranscoding
from videos.media.ladder import rungs_for
from videos.models import (
    QualityStatus,
    Rendition,
    RenditionKind,
    Transcode,
    TranscodeStatus,
    Video,
    VideoStatus,
)
from videos.statuses import ENDED

T = TypeVar("T")

LAST_WRITES = timedelta(seconds=10)
"""How long a worker that was told to stop may still write, beside the time that its handlers have to clean up."""


def retranscode(
    video: Video,
    *,
    qualities: Sequence[str] = (),
    subtitles: bool = False,
    repairing: Transcode | None = None,
) -> Transcode:
    """Begin a new generation. What is published stays published until the new one is; raises AlreadyTranscoding.

    Without `qualities` all is encoded again. With them these are, and the other qualities that are published are taken
    over as they are (`kept_qualities` of what is returned); the segments of all stay the same. Raises ActionRefused
    where that cannot be. `repairing` is a generation to repair: all is taken over that it has whole and that would be
    encoded the same way.
    """
    chosen = intake.check_qualities(qualities)

    def write() -> Transcode:
        ended = video.transcodes.filter(status__in=ENDED).defer("plan")
        generations.settle_failures(ended, reason="the video is encoded again")
        kept = Video.objects.select_for_update(no_key=True).get(pk=video.pk)
        if kept.deleted_at is not None:
            raise ActionRefused(f"{kept.title!r} is deleted; restore it first.", code="video_deleted")
        _refuse_without_source(kept)
        active = kept.transcodes.active().first()
        if active:
            raise AlreadyTranscoding(kept.title, active.number)
        wanted: dict[str, Any] = {
            "qualities": list(chosen),
            "with_subtitles": subtitles or not kept.subtitles.exists(),
            "redo_subtitles": subtitles,
        }
        if repairing is not None:
            based_on = repairing.number if conf.current().keep_completed_qualities else None
            return generations.begin(kept, **wanted, encoder=repairing.encoder, based_on=based_on)
        if kept.current and (others := _plan_of_others(kept, chosen)):
            wanted |= {"based_on": kept.current.number, "kept_plan": others}
        return generations.begin(kept, **wanted)

    try:
        return _together(write)
    except IntegrityError:  # two at once, and the other one was first
        raise AlreadyTranscoding(video.title, video.transcodes.active().get().number) from None


def _plan_of_others(video: Video, chosen: Sequence[str]) -> dict[str, Any] | None:
    """How the published qualities were encoded that were not chosen; None: there are none to keep."""
    if not chosen:
        return None
    possible = {size.rung.name for size in rungs_for(video.width or 0, video.height or 0).sizes}
    if not possible & {*chosen}:
        raise ActionRefused(
            f"The source of {video.title!r} is too small for {', '.join(chosen)}; it has "
            f"{', '.join(sorted(possible))}.",
            code="above_source",
        )
    current: Transcode | None = video.current
    published = current.renditions.filter(kind=RenditionKind.VIDEO) if current else Rendition.objects.none()
    others = {*published.values_list("name", flat=True)} - {*chosen}
    if current is None or not others:
        return None
    if gap := keeping.what_is_missing(current):
        raise ActionRefused(
            f"The other qualities of {video.title!r} cannot be kept, because {gap}. Re-encode all qualities.",
            code="published_damaged",
        )
    try:
        plan = reusing.whole_plan(current)
    except (ValueError, KeyError, TypeError) as error:
        raise ActionRefused(
            f"The other qualities of {video.title!r} cannot be kept: another version of Sprocket has planned them "
            f"({error}). Re-encode all qualities.",
            code="plan_unusable",
        ) from error
    return replace(plan, renditions=tuple(r for r in plan.renditions if r.name in others)).to_json()


def retry(video: Video, *, actor: str = "") -> Transcode:
    """Run again what has failed; what is finished is kept. Begins a new generation when nothing can be kept."""
    newest: Transcode | None = video.transcodes.order_by("-number").first()
    if newest is None:
        return retranscode(video)
    if newest.status in ENDED and not _can_go_on(newest):
        return retranscode(video, qualities=newest.requested_qualities, subtitles=newest.redo_subtitles)
    roots = Job.objects.filter(workflow_id=newest.workflow_id).filter(
        Q(status=Status.FAILED) | Q(status=Status.CANCELLED, cancelled_because="")
    )

    def write() -> bool:
        return bool(lifecycle.retry(list(roots.values_list("pk", flat=True)), actor=actor))

    _refuse_without_source(video)
    if not _together(write):
        raise ActionRefused(
            f"Nothing of {video.title!r} has failed; retranscode it to encode it again.",
            code="nothing_failed",
        )
    newest.refresh_from_db()
    return newest


def retry_quality(video: Video, quality: str, *, actor: str = "") -> Transcode:
    """Run one failed quality again. Those that were left out of a published video come with a new generation, which
    takes over what the published one has, if that may be kept and is whole."""
    newest: Transcode | None = video.transcodes.order_by("-number").first()
    row = newest.qualities.filter(quality=quality, status=QualityStatus.FAILED).first() if newest else None
    if newest is None or row is None:
        raise ActionRefused(f"{quality} of {video.title!r} has not failed.", code="nothing_failed")
    if newest.status in (TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED):
        failed = newest.qualities.filter(status=QualityStatus.FAILED)
        again = list(failed.values_list("quality", flat=True))
        if not conf.current().keep_completed_qualities or keeping.what_is_missing(newest):
            published = newest.renditions.filter(kind=RenditionKind.VIDEO)
            again += published.values_list("name", flat=True)
        return retranscode(video, qualities=again)
    if newest.is_active:
        raise AlreadyTranscoding(video.title, newest.number)
    return retry(video, actor=actor)


def cancel(video: Video, *, actor: str = "") -> None:
    """Stop the active transcode. What is published stays as it is."""
    _together(lambda: _cancel_jobs(video, actor=actor, reason="the transcode was cancelled"))


def delete(video: Video, *, actor: str = "") -> None:
    """Hide the video and stop its jobs; restore() brings it back, purge() removes it for good."""

    def write() -> None:
        _cancel_jobs(video, actor=actor, reason="the video was deleted")
        Video.objects.filter(pk=video.pk, deleted_at__isnull=True).update(deleted_at=Now())

    _together(write)
    video.refresh_from_db()


def restore(video: Video, *, actor: str = "") -> None:
    """Bring a deleted video back; one that was never published goes on where it was stopped."""

    def write() -> None:
        Video.objects.filter(pk=video.pk).update(deleted_at=None)

    _together(write)
    video.refresh_from_db()
    if video.status == VideoStatus.FAILED:
        newest = video.transcodes.order_by("-number").first()
        if newest and newest.status == TranscodeStatus.CANCELLED:
            retry(video, actor=actor)


def purge(video: Video, *, actor: str = "") -> None:
    """Remove the video for good: its records now, its files by a job."""

    def write() -> None:
        running = _cancel_jobs(video, actor=actor, reason="the video was purged")
        generations.settle_failures(video.transcodes.defer("plan"), reason="the video was purged")
        last = LAST_WRITES + queue_settings.current().cancel_grace
        removal.plan_video(video.pk, delay=last if running else timedelta(0))
        Video.objects.filter(pk=video.pk).update(status=VideoStatus.PENDING, current=None)
        Video.objects.filter(pk=video.pk).delete()

    _together(write)


def _cancel_jobs(video: Video, *, actor: str, reason: str) -> bool:
    """Cancel every job of the video; whether any of them was running."""
    workflows = video.transcodes.exclude(workflow_id="").values_list("workflow_id", flat=True)
    active = Job.objects.active().filter(workflow_id__in=list(workflows))
    running = active.filter(status=Status.PROCESSING).exists()
    lifecycle.cancel(list(active.values_list("pk", flat=True)), actor=actor, reason=reason)
    return running


def _can_go_on(transcode: Transcode) -> bool:
    """Whether what is finished of an ended transcode may be used. If nobody can encode like this any more, the worker
    that finds out starts over (toolchains.py)."""
    return conf.current().keep_completed_qualities and transcode.files_removed_at is None


def _refuse_without_source(video: Video) -> None:
    try:
        size = depot.size_of(storage.source(video))
    except (StorageDown, StorageRefused) as error:
        raise ActionRefused(f"{error} Try again later.", code="storage_away") from error
    if size is None:
        raise ActionRefused(
            f"The source of {video.title!r} is gone ({storage.source(video)}); put it back first.",
            code="source_gone",
        )


def _together(action: Callable[[], T]) -> T:
    def write() -> T:
        with database.atomic():
            return action()

    return database.when_unlocked(write)
