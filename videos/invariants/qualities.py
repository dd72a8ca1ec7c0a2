"""How far each quality is (SPEC 2.1), and which there are (SPEC 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import F, Q, Value
from django.db.models.functions import Abs, Greatest, Least

from jobs.invariants import rule
from videos.invariants.terms import SEEN, differ
from videos.media.ladder import LADDER
from videos.models import QualityProgress, QualityStatus
from videos.models.transcode import ACTIVE

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


@rule("only an active transcode has a quality in progress, and what is published has none left to do")
def _at_rest() -> Iterable[Any]:
    in_progress = Q(status=QualityStatus.IN_PROGRESS) & ~Q(transcode__status__in=ACTIVE)
    left = Q(status=QualityStatus.PENDING, transcode__status__in=SEEN)
    return QualityProgress.objects.filter(in_progress | left)
