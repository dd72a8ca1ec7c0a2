"""How far each quality is (SPEC 2.1), and which there are (SPEC 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Count, Exists, F, IntegerField, Max, OuterRef, Q, Subquery, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Abs, Cast, Greatest, Least

from jobs.invariants import rule
from jobs.models import Job, Status
from videos import pipeline
from videos.invariants.terms import SEEN, differ
from videos.media.ladder import LADDER
from videos.media.plan import EncodePlan
from videos.models import QualityProgress, QualityStatus, TranscodeStatus
from videos.models.transcode import ACTIVE
from videos.progress import plan_of

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


@rule("the segments of a quality are those of the chunks that are done, as long as chunks are being made")
def _counted() -> Iterable[Any]:
    """In one statement, so that no chunk is done between two of them."""
    chunks = Job.objects.filter(
        pipeline.are_chunks(),
        workflow_id=OuterRef("transcode__workflow_id"),
        status=Status.COMPLETED,
    ).order_by()
    number = Cast(KeyTextTransform("chunk", "payload"), IntegerField())
    done = chunks.values("workflow_id").annotate(done=Count("pk"), last=Max(number))
    rows = QualityProgress.objects.filter(transcode__status__in=ACTIVE, transcode__plan__isnull=False)
    rows = rows.exclude(status__in=(QualityStatus.FAILED, QualityStatus.SKIPPED)).select_related("transcode")
    for row in rows.annotate(done=Subquery(done.values("done")), last=Subquery(done.values("last"))):
        plan = plan_of(row.transcode)
        if plan and row.segments_completed != _segments_of(row, plan):
            yield row


def _segments_of(row: Any, plan: EncodePlan) -> int:
    if row.quality in row.transcode.kept_qualities:
        return plan.total_segments
    segments = int(row.done or 0) * plan.segments_per_chunk
    if row.last == plan.total_chunks:  # which may have fewer
        segments -= plan.total_chunks * plan.segments_per_chunk - plan.total_segments
    return segments


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
    runs = Q(Exists(chunks.filter(pipeline.are_chunks())))
    runs &= Q(transcode__status=TranscodeStatus.PROCESSING)
    unfinished = Q(status__in=(QualityStatus.PENDING, QualityStatus.IN_PROGRESS))
    wrong = unfinished & differ(Q(status=QualityStatus.IN_PROGRESS), runs)
    return QualityProgress.objects.filter(wrong | (unfinished & Q(transcode__status__in=SEEN)))
