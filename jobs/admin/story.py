"""The life of a job in words: what has happened to it, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Min

from jobs import fleet
from jobs.dashboard import words
from jobs.models import Attempt, Event, Job, JobTypeState, Outcome, Prerequisite, Status

MOST_ATTEMPTS = 50
MOST_EVENTS = 200


@dataclass(frozen=True)
class Moment:
    """One line of the timeline."""

    at: datetime
    code: str
    """What happened, for programs: "created", "attempt_started", "attempt_" and an outcome, the kind of an event."""
    status: str
    """Gives the colour."""
    title: str
    detail: str = ""
    actor: str = ""


@dataclass(frozen=True)
class Story:
    timeline: Sequence[Moment] = ()
    attempts: Sequence[Attempt] = ()
    """The newest first."""
    is_shortened: bool = False


def tell(job: Job) -> Story:
    attempts = list(job.attempts.order_by("-token")[: MOST_ATTEMPTS + 1])
    events = list(job.events.order_by("-id")[: MOST_EVENTS + 1])
    shortened = len(attempts) > MOST_ATTEMPTS or len(events) > MOST_EVENTS
    attempts, events = attempts[:MOST_ATTEMPTS], events[:MOST_EVENTS]
    return Story(_timeline(job, attempts, events), attempts, shortened)


_COLOUR_OF_EVENT = {
    "recovered": "processing",
    "released": "released",
    "cancelled": "cancelled",
    "retried": "pending",
    "revived": "pending",
    "reconciled": "completed",
    "changed": "waiting",
}
_COLOUR_OF_OUTCOME = {
    Outcome.RUNNING: "processing",
    Outcome.LOST: "failed",
    Outcome.RELEASED: "released",
}


def _timeline(job: Job, attempts: Sequence[Attempt], events: Sequence[Event]) -> list[Moment]:
    by = f"by {job.submitter}" if job.submitter else ""
    moments = [Moment(job.created_at, "created", "waiting", "Created", by)]
    for attempt in attempts:
        moments.append(
            Moment(
                attempt.started_at,
                "attempt_started",
                "processing",
                f"Attempt {attempt.number} started",
                f"on {attempt.worker_name}",
            )
        )
        if attempt.finished_at:
            moments.append(
                Moment(
                    attempt.finished_at,
                    f"attempt_{attempt.outcome}",
                    _COLOUR_OF_OUTCOME.get(Outcome(attempt.outcome), attempt.outcome),
                    f"Attempt {attempt.number} {attempt.get_outcome_display().lower()} after {took(attempt)}",
                    _first_line(attempt.error),
                )
            )
    moments += [
        Moment(
            event.at,
            event.kind,
            _COLOUR_OF_EVENT.get(event.kind, "waiting"),
            event.get_kind_display().capitalize(),
            event.detail,
            event.actor,
        )
        for event in events
    ]
    if job.status == Status.COMPLETED and job.completed_at:
        moments.append(Moment(job.completed_at, "completed", "completed", "Completed"))
    return sorted(moments, key=lambda moment: moment.at)


def took(attempt: Attempt) -> str:
    if attempt.finished_at is None:
        return ""
    return words.fine_duration((attempt.finished_at - attempt.started_at).total_seconds())


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]


@dataclass(frozen=True)
class Neighbour:
    """A job, and how many more there are of its type and status."""

    id: str
    type: str
    status: str
    count: int = 1


@dataclass(frozen=True)
class Explanation:
    """Why the job is where it is, in one sentence; and in one word, for programs."""

    code: str
    text: str
    until: datetime | None = None
    is_trouble: bool = False
    """It does not go on by itself."""
    jobs: Sequence[Neighbour] = field(default_factory=list)
    """Those it waits for, or that caused it."""


def explain(job: Job) -> Explanation:
    if job.status == Status.WAITING and job.blocked:
        return Explanation("blocked", "Waits for", jobs=_unfinished_prerequisites(job))
    if job.status == Status.WAITING:
        if job.last_error:
            return Explanation("retrying", "Tried again after its last error", until=job.run_at)
        return Explanation("scheduled", "Waits for its time", until=job.run_at)
    if job.status == Status.PENDING:
        return _explain_pending(job)
    if job.status == Status.PROCESSING:
        return Explanation(
            "running", f"Runs on {job.processed_by_worker_name}. Its lease lasts", until=job.claim_expires_at
        )
    if job.status == Status.FAILED:
        return Explanation("failed", "Stays here until somebody retries or discards it.", is_trouble=True)
    if job.status == Status.CANCELLED and job.cancelled_because:
        cause = Job.objects.filter(pk=job.cancelled_because).values_list("id", "type", "status")
        needs = [Neighbour(*row) for row in cause]
        return Explanation("cancelled_because", "Cancelled, because it needs", jobs=needs, is_trouble=True)
    return Explanation(job.status, "")


def _unfinished_prerequisites(job: Job) -> list[Neighbour]:
    needed = Prerequisite.objects.filter(job=job).exclude(needs__status=Status.COMPLETED)
    kinds = needed.values_list("needs__type", "needs__status").annotate(Min("needs"), Count("pk")).order_by()
    return [Neighbour(first, kind, status, count) for kind, status, first, count in sorted(kinds[:20])]


def _explain_pending(job: Job) -> Explanation:
    if JobTypeState.objects.filter(pk=job.type, paused=True).exists():
        return Explanation("type_paused", f"{job.type} is paused: no worker takes its jobs.", is_trouble=True)
    if not any(job.type in worker.job_types and not worker.order for worker in fleet.living("job_types")):
        return Explanation("no_worker", "No worker that handles this type is online.", is_trouble=True)
    return Explanation("ready", "The next free worker takes it.")
