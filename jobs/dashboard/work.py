"""Jobs worth a line of their own: what runs, what comes next, what failed and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, Subquery

from jobs.dashboard.addresses import Addresses
from jobs.live.job_topics import estimated_end
from jobs.models import Attempt, Job, Outcome

MOST_RUNNING = 1_000
"""Running jobs that are looked at: there are as many as the fleet has slots."""
SHOWN_RUNNING = 12
SHOWN_NEXT = 6
SHOWN_FAILED = 8
REASONS_FROM = 50
"""Of so many failed jobs, the newest, the reasons are counted."""
SHOWN_REASONS = 3

_RUNNING = (
    "id",
    "type",
    "status",
    "worker_id",
    "processed_by_worker_name",
    "progress_percent",
    "current_step",
    "claimed_at",
    "claim_expires_at",
    "last_checkpoint",
    "attempt_number",
    "max_attempts",
)


@dataclass(frozen=True)
class RunningJob:
    id: str
    type: str
    worker_id: str
    worker: str
    percent: float | None
    """None: it has not said anything about its progress."""
    step: str
    since: datetime
    ends: datetime | None
    attempt: int
    max_attempts: int
    is_overdue: bool
    """Its lease is over; the next sweep takes it back."""
    address: str = ""
    worker_address: str = ""


def read_running(now: datetime, addresses: Addresses) -> list[RunningJob]:
    """Those that run longest first."""
    rows = Job.objects.leased().only(*_RUNNING).order_by("claimed_at")[:MOST_RUNNING]
    return [
        RunningJob(
            id=job.id,
            type=job.type,
            worker_id=job.worker_id,
            worker=job.processed_by_worker_name,
            percent=round(job.progress_percent, 1) if job.progress_percent else None,
            step=job.current_step,
            since=job.claimed_at or now,
            ends=estimated_end(job),
            attempt=job.attempt_number,
            max_attempts=job.max_attempts,
            is_overdue=job.claim_expires_at is not None and job.claim_expires_at <= now,
            address=addresses.job(job.id) if number < SHOWN_RUNNING else "",
            worker_address=addresses.worker(job.worker_id) if number < SHOWN_RUNNING else "",
        )
        for number, job in enumerate(rows)
    ]


@dataclass(frozen=True)
class ComingJob:
    id: str
    type: str
    at: datetime
    retry_of: str
    """The error after which it will be tried again; empty: it was scheduled so."""
    attempts: str
    address: str


def read_coming(addresses: Addresses) -> list[ComingJob]:
    """The next that wait for their time."""
    rows = Job.objects.filter(status="waiting", blocked=False).order_by("run_at")[:SHOWN_NEXT]
    fields = ("id", "type", "run_at", "last_error", "attempt_number", "max_attempts")
    return [
        ComingJob(
            job.id,
            job.type,
            job.run_at,
            first_line(job.last_error),
            f"{job.attempt_number} of {job.max_attempts}",
            addresses.job(job.id),
        )
        for job in rows.only(*fields)
    ]


@dataclass(frozen=True)
class FailedJob:
    id: str
    type: str
    at: datetime | None
    error: str
    address: str


@dataclass(frozen=True)
class Failures:
    shown: Sequence[FailedJob]
    reasons: Sequence[tuple[str, int]]
    """What goes wrong most, among the newest."""


def read_failures(addresses: Addresses) -> Failures:
    last = Attempt.objects.filter(job=OuterRef("pk"), outcome__in=(Outcome.FAILED, Outcome.LOST))
    ended = Subquery(last.order_by("-token").values("finished_at")[:1])
    rows = list(
        Job.objects.failed()
        .order_by("-id")
        .annotate(ended=ended)
        .values_list("id", "type", "last_error", "ended")[:REASONS_FROM]
    )
    reasons = Counter(first_line(error).partition(":")[0] for _, _, error, _ in rows if error)
    rows.sort(key=lambda row: (row[3] is not None, row[3] or 0, row[0]), reverse=True)
    shown = [
        FailedJob(id, type_name, at, first_line(error), addresses.job(id))
        for id, type_name, error, at in rows[:SHOWN_FAILED]
    ]
    return Failures(shown, reasons.most_common(SHOWN_REASONS))


def first_line(error: str) -> str:
    return error.strip().partition("\n")[0][:200]
