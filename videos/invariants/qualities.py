"""How far each quality is (SPEC 2.1), and which there are (SPEC 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.functions import Abs, Greatest, Least

from jobs.invariants import rule
from jobs.models import Job, Status
from videos import pipeline
from videos.invariants.terms import SEEN, differ
from videos.media.ladder import LADDER
from videos.models import QualityProgress, QualityStatus, TranscodeStatus

HARDLY = 0.01


@rule("a quality is completed exactly when all its segments are")
def _segments() -> Iterable[Any]:
    whole = Q(segments_completed=F("segments_total"), segments_total__gt=0)
    done = Q(status=QualityStatus.COMPLETED)
    unfinished = Q(status__in=(QualityStatus.PENDING, QualityStatus.IN_PROGRESS))
    return QualityProgress.objects.filter((done & ~whole) | (unfinished & whole))


@rule("the progress of a quality is the share of its segments")
def _share() -> Iterable[Any]:
    share = F("segments_completed") * 100.0 / Greatest(F("segments_total"), Value(1))
    return QualityProgress.objects.annotate(off=Abs(share - F("progress_percent"))).filter(off__gt=HARDLY)


@rule("a quality says why it failed exactly when it has failed")
def _failed_with_reason() -> Iterable[Any]:
    return QualityProgress.objects.filter(differ(Q(status=QualityStatus.FAILED), ~Q(error_message="")))


@rule("a quality is skipped exactly when it is above its source")
def _skipped() -> Iterable[Any]:
    above = reduce(or_, (Q(quality=rung.name, short_side__lt=rung.short_side) for rung in LADDER))
    sized = QualityProgress.objects.annotate(
        short_side=Least("transcode__video__width", "transcode__video__height")
    )
    return sized.filter(differ(Q(status=QualityStatus.SKIPPED), above))


@rule(
    "a quality that is not whole is in progress exactly when a chunk runs, and what is published has none to do"
)
def _at_rest() -> Iterable[Any]:
    chunks = Job.objects.filter(workflow_id=OuterRef("transcode__workflow_id"), status=Status.PROCESSING)
    runs = Q(Exists(chunks.filter(type__in=pipeline.picture_types())))
    runs &= Q(transcode__status=TranscodeStatus.PROCESSING)
    unfinished = Q(status__in=(QualityStatus.PENDING, QualityStatus.IN_PROGRESS))
    wrong = unfinished & differ(Q(status=QualityStatus.IN_PROGRESS), runs)
    return QualityProgress.objects.filter(wrong | (unfinished & Q(transcode__status__in=SEEN)))
