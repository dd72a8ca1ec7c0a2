"""How far a transcode is: overall by pixels to encode, per quality by segments; read live, never backwards.

What completed jobs have done is stored with their completion (following.py). What running jobs have done so far is
in their own rows, which the worker writes twice a second at most; here both are put together.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs import database
from jobs.models import Job, Status
from videos import pipeline
from videos.media.plan import EncodePlan
from videos.models import QualityStatus, Transcode

log = logging.getLogger("videos")

SETTLED_AFTER = 1.0
"""Below this percentage an estimate of the remaining time says nothing."""


@dataclass(frozen=True)
class QualityShare:
    """One line of a progress display."""

    quality: str
    status: str
    percent: float
    segments_completed: int
    segments_total: int


@dataclass(frozen=True)
class Progress:
    percent: float
    step: str
    eta: datetime | None
    qualities: tuple[QualityShare, ...]


def plan_of(transcode: Transcode) -> EncodePlan | None:
    """Its plan; None before the probe, and for a plan that another version of this code has made."""
    try:
        return EncodePlan.from_json(transcode.plan) if transcode.plan else None
    except (ValueError, KeyError, TypeError) as error:
        log.warning("transcode %s: its plan cannot be read (%s)", transcode.pk, error)
        return None


def read(transcode: Transcode) -> Progress:
    """As it is at this moment, running jobs included."""
    plan = plan_of(transcode)
    running = _running(transcode) if plan and transcode.is_active else []
    percent = measured_percent(transcode, plan, running) if plan else 0.0
    under_way = _segments_under_way(plan, running) if plan else 0.0
    shares = tuple(
        QualityShare(
            quality=row.quality,
            status=row.status,
            percent=_quality_percent(row.segments_completed, row.segments_total, row.status, under_way),
            segments_completed=row.segments_completed,
            segments_total=row.segments_total,
        )
        for row in transcode.qualities.order_by("pk")
    )
    percent = max(percent, transcode.progress_percent)
    eta = estimate_end(transcode.started_at, percent, database.read_clock()) if transcode.is_active else None
    return Progress(percent, transcode.current_step, eta, shares)


def measured_percent(transcode: Transcode, plan: EncodePlan, jobs: list[Job]) -> float:
    """Completed work and the reported part of these jobs' work, in percent. Publishing alone makes it 100."""
    if not transcode.work_total:
        return 0.0
    reported = sum(pipeline.work_of(plan, job.type, job.payload) * job.progress_percent / 100 for job in jobs)
    return min(99.9, 100 * (transcode.work_done + reported) / transcode.work_total)


def estimate_end(started_at: datetime | None, percent: float, now: datetime) -> datetime | None:
    """When it will be done if it goes on as it has gone so far."""
    if started_at is None or percent < SETTLED_AFTER or percent >= 100:
        return None
    elapsed = (now - started_at).total_seconds()
    return now + timedelta(seconds=elapsed * (100 - percent) / percent)


def _running(transcode: Transcode) -> list[Job]:
    running = Job.objects.filter(workflow_id=transcode.workflow_id, status=Status.PROCESSING)
    return list(running.only("id", "type", "payload", "progress_percent"))


def _segments_under_way(plan: EncodePlan, running: list[Job]) -> float:
    """Segments' worth of work that running chunks report; a chunk encodes all qualities at the same time."""
    return sum(
        len(plan.chunk(job.payload["chunk"]).segments) * job.progress_percent / 100
        for job in running
        if pipeline.encodes_picture(job.type)
    )


def _quality_percent(completed: int, total: int, status: str, under_way: float) -> float:
    if status == QualityStatus.COMPLETED:
        return 100.0
    if status in (QualityStatus.SKIPPED, QualityStatus.FAILED) or not total:
        return 100.0 * completed / total if total else 0.0
    return min(99.9, 100 * (completed + under_way) / total)
