"""Videos and what comes with them (SPEC 2.1, 2.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, F, OuterRef, Q

from jobs.invariants import rule
from videos.invariants.terms import ENDED, SHOWN, differ
from videos.models import (
    QualityProgress,
    QualityStatus,
    Rendition,
    RenditionKind,
    Step,
    Subtitle,
    SubtitleSource,
    Transcode,
    TranscodeStatus,
    Video,
    VideoStatus,
    Visibility,
)
from videos.models.transcode import ACTIVE


@rule("whatever has a status has one that exists")
def _known_statuses() -> Iterable[Any]:
    names: dict[Any, Any] = {Video: VideoStatus, Transcode: TranscodeStatus, QualityProgress: QualityStatus}
    for model, choices in names.items():
        yield from model.objects.exclude(status__in=choices.values)


@rule("whatever has a step, visibility, kind or source has one that exists", by_hand="choose one that exists")
def _known_names() -> Iterable[Any]:
    names: dict[Any, tuple[str, Any]] = {
        Video: ("visibility", Visibility),
        Transcode: ("current_step", Step),
        Rendition: ("kind", RenditionKind),
        Subtitle: ("source", SubtitleSource),
    }
    for model, (field, choices) in names.items():
        yield from model.objects.exclude(**{f"{field}__in": choices.values})[:SHOWN]


@rule("a ready video has a published generation, and every published generation is its video's current one")
def _ready_is_published() -> Iterable[Any]:
    ready = Video.objects.filter(status=VideoStatus.READY).exclude(current__status=TranscodeStatus.PUBLISHED)
    published = Transcode.objects.filter(status=TranscodeStatus.PUBLISHED).exclude(video__current=F("pk"))
    return [*ready, *published]


@rule(
    "a video's current generation is its own, has its files and at least one rendition of the picture",
    by_hand="encode the video again",
)
def _current_is_whole() -> Iterable[Any]:
    picture = Rendition.objects.filter(transcode=OuterRef("current"), kind=RenditionKind.VIDEO)
    return Video.objects.filter(current__isnull=False).filter(
        ~Q(current__video=F("pk")) | Q(current__files_removed_at__isnull=False) | ~Exists(picture)
    )


@rule("a video has been published exactly when it has a date of publication")
def _published_at() -> Iterable[Any]:
    published = Q(Exists(Transcode.objects.filter(video=OuterRef("pk"), published_at__isnull=False)))
    return Video.objects.filter(differ(published, Q(published_at__isnull=False)))


@rule("a video that is not ready follows its newest transcode")
def _status_follows() -> Iterable[Any]:
    newest = Transcode.objects.filter(video=OuterRef("video")).order_by("-number")
    agrees = (
        Q(status=TranscodeStatus.PENDING, video__status=VideoStatus.PENDING)
        | Q(status=TranscodeStatus.PROCESSING, video__status=VideoStatus.PROCESSING)
        | Q(status__in=ENDED, video__status=VideoStatus.FAILED)
    )
    return (
        Transcode.objects.filter(pk=newest.values("pk")[:1])
        .exclude(video__status=VideoStatus.READY)
        .exclude(agrees)
    )


@rule("a video says why it failed exactly when it has failed")
def _failed_with_reason() -> Iterable[Any]:
    return Video.objects.filter(differ(Q(status=VideoStatus.FAILED), ~Q(error_message="")))


@rule(
    "a video was looked at before it was one: it has a length, a size, a rate and a codec",
    by_hand="upload the video again",
)
def _probed() -> Iterable[Any]:
    known = Q(duration__gt=0, width__gt=0, height__gt=0, fps__gt=0) & ~Q(video_codec="")
    return Video.objects.exclude(known)


@rule(
    "a video has a generation from its first moment on, and each has its workflow",
    by_hand="encode the video again",
)
def _begun() -> Iterable[Any]:
    none = Video.objects.filter(~Exists(Transcode.objects.filter(video=OuterRef("pk"))))
    return [*none[:SHOWN], *Transcode.objects.filter(workflow_id="")[:SHOWN]]


@rule("nothing of a deleted video is in progress", by_hand="restore the video, then delete it")
def _deleted_rests() -> Iterable[Any]:
    return Transcode.objects.filter(status__in=ACTIVE, video__deleted_at__isnull=False)


@rule("a subtitle is WebVTT in a language", by_hand="upload the subtitles again")
def _subtitles() -> Iterable[Any]:
    return Subtitle.objects.exclude(Q(webvtt__startswith="WEBVTT") & ~Q(language=""))
