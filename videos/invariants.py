"""The rules of the pipeline that must hold at every moment; `manage.py check_invariants` covers them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q

from jobs.invariants import rule
from jobs.models import ACTIVE as ACTIVE_JOBS
from jobs.models import Job, Status
from videos import pipeline
from videos.models import (
    QualityProgress,
    QualityStatus,
    Rendition,
    Transcode,
    TranscodeStatus,
    Video,
    VideoStatus,
)
from videos.models.transcode import ACTIVE


def _jobs(*statuses: str) -> Any:
    return Job.objects.filter(workflow_id=OuterRef("workflow_id"), status__in=statuses)


@rule("a ready video has a published generation, and every published generation is its video's current one")
def _ready_is_published() -> Iterable[Any]:
    ready = Video.objects.filter(status=VideoStatus.READY).exclude(current__status=TranscodeStatus.PUBLISHED)
    published = Transcode.objects.filter(status=TranscodeStatus.PUBLISHED).exclude(video__current=F("pk"))
    return [*ready[:20], *published[:20]]


@rule("a video's current generation is its own, has its files and at least one rendition of the picture")
def _current_is_whole() -> Iterable[Any]:
    picture = Rendition.objects.filter(transcode=OuterRef("current"), kind="video")
    return Video.objects.filter(current__isnull=False).filter(
        ~Q(current__video=F("pk")) | Q(current__files_removed_at__isnull=False) | ~Exists(picture)
    )


@rule("a video has been published exactly when it has a date of publication")
def _published_at() -> Iterable[Any]:
    return Video.objects.filter(current__isnull=False, published_at__isnull=True)


@rule("a video that is not ready follows its newest transcode")
def _status_follows() -> Iterable[Any]:
    newest = Transcode.objects.filter(video=OuterRef("video")).order_by("-number")
    agrees = (
        Q(status=TranscodeStatus.PENDING, video__status=VideoStatus.PENDING)
        | Q(status=TranscodeStatus.PROCESSING, video__status=VideoStatus.PROCESSING)
        | Q(status__in=(TranscodeStatus.FAILED, TranscodeStatus.CANCELLED), video__status=VideoStatus.FAILED)
    )
    return (
        Transcode.objects.filter(pk=newest.values("pk")[:1])
        .exclude(video__status=VideoStatus.READY)
        .exclude(agrees)
    )


@rule("a failed video says why")
def _failed_with_reason() -> Iterable[Any]:
    return Video.objects.filter(status=VideoStatus.FAILED, error_message="")


@rule("one active transcode per video")
def _one_active() -> Iterable[Any]:
    active = Transcode.objects.filter(status__in=ACTIVE).order_by().values("video")
    return active.annotate(count=Count("pk")).filter(count__gt=1)


@rule("an active transcode has a job that has yet to end")
def _active_has_jobs() -> Iterable[Any]:
    return Transcode.objects.filter(~Exists(_jobs(*ACTIVE_JOBS)), status__in=ACTIVE)


@rule("a transcode whose job runs is not pending")
def _running_is_processing() -> Iterable[Any]:
    return Transcode.objects.filter(Exists(_jobs(Status.PROCESSING)), status=TranscodeStatus.PENDING)


@rule("an active transcode has no failed or cancelled critical job")
def _active_without_failure() -> Iterable[Any]:
    fallen = _jobs(Status.FAILED, Status.CANCELLED).filter(type__in=pipeline.critical_types())
    return Transcode.objects.filter(Exists(fallen), status__in=ACTIVE)


@rule("a quality is completed exactly when all its segments are")
def _segments() -> Iterable[Any]:
    whole = Q(segments_completed=F("segments_total"), segments_total__gt=0)
    done = Q(status=QualityStatus.COMPLETED)
    unfinished = Q(status__in=(QualityStatus.PENDING, QualityStatus.IN_PROGRESS))
    return QualityProgress.objects.filter((done & ~whole) | (unfinished & whole))


@rule("no progress is below 0 or above 100, and only what is published has reached 100")
def _percent() -> Iterable[Any]:
    published = Q(status__in=(TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED))
    return Transcode.objects.filter(
        Q(progress_percent__lt=0) | Q(progress_percent__gt=100) | (Q(progress_percent=100) & ~published)
    )
