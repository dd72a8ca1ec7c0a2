"""Records of a job that contradict each other, since somebody has changed rows by hand: part of `manage.py reconcile`.

What check_invariants says of a job, its attempts and its events is put right here, but for what `by_hand` names there.

- The newest attempt decides, since it was written under the lease: a job that it has completed is completed, and one
  that is called completed or failed although no attempt says so starts over. Artifacts are asked first (reconcile.py).
- A job that is called cancelled is cancelled: to run what somebody has withdrawn would be worse.
- A lease is real if its attempt exists; then nothing but the attempt is touched.

Each job is looked at again under its row's lock, so what workers do at the same time is never undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Coalesce, Now

from jobs import database, orchestrator, registry, wakeup
from jobs.exceptions import TransitionRefused, WorkerLost
from jobs.invariants import RULES, is_repaired, subjects_of
from jobs.lifecycle.finishing import NO_LEASE
from jobs.lifecycle.leases import lock
from jobs.models import Attempt, Event, Job, Kind, Outcome, Status
from jobs.signals import Transition, announce

AT_ONCE = 1000
STARTS_OVER = (Kind.RETRIED, Kind.REVIVED, Kind.RECONCILED)
_SAME = {
    Status.COMPLETED: Outcome.COMPLETED,
    Status.FAILED: Outcome.FAILED,
    Status.CANCELLED: Outcome.CANCELLED,
}


@dataclass(frozen=True)
class Mended:
    """A job whose records were put right."""

    job_id: str
    type: str
    before: str
    after: str
    why: str


def mend(*, dry_run: bool) -> list[Mended]:
    """Put right every job that a rule names. What one repair brings to light is repaired, too."""
    mended: dict[str, Mended] = {}
    refused: set[str] = set()
    while True:
        suspects = sorted(_suspects() - refused)
        found = {job_id: one for job_id in suspects if (one := _mend_one(job_id, dry_run=dry_run))}
        refused.update(job_id for job_id in suspects if job_id not in found or job_id in mended)
        mended |= found
        if dry_run or not found:
            return list(mended.values())


def _suspects() -> set[str]:
    found: set[str] = set()
    for check in RULES.values():
        if check.__module__ == "jobs.invariants" and is_repaired(check):
            found.update(_job_of(subject) for subject in subjects_of(check, limit=AT_ONCE))
    return found


def _job_of(subject: Any) -> str:
    if isinstance(subject, Attempt):
        return str(subject.job_id)
    return str(subject.pk) if isinstance(subject, Job) else str(subject).rpartition(" ")[2]


def _mend_one(job_id: str, *, dry_run: bool) -> Mended | None:
    try:
        with database.atomic():
            row = lock([job_id]).get(job_id)
            if row is None:
                return None
            reasons = _Records(job_id).mend()
            after = Job.objects.values_list("status", flat=True).get(pk=job_id)
            if dry_run:
                transaction.set_rollback(True, using=database.alias())
    except (TransitionRefused, IntegrityError):
        return None  # it stays, and check_invariants goes on naming it
    return Mended(job_id, row.type, row.status, after, "; ".join(reasons)) if reasons else None


class _Records:
    """A locked job with its attempts and the kinds of its events."""

    def __init__(self, job_id: str) -> None:
        self.id = job_id
        self.read()

    def read(self) -> None:
        self.job: Job = Job.objects.defer("payload", "result").get(pk=self.id)
        self.attempts = list(Attempt.objects.filter(job=self.id).order_by("token"))
        self.events = Counter(Event.objects.filter(job=self.id).values_list("kind", flat=True))

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def holder(self) -> Attempt | None:
        """The attempt that the job's lease was given to; None: there is none, or it was given back."""
        mine = [
            a for a in self.attempts if a.token == self.job.lease_token and a.worker_id == self.job.worker_id
        ]
        released = sum(a.outcome == Outcome.RELEASED for a in self.attempts)
        is_over = mine and mine[0].outcome == Outcome.RELEASED and released <= self.events[Kind.RELEASED]
        return mine[0] if mine and not is_over else None

    @property
    def is_leased(self) -> bool:
        return self.job.status == Status.PROCESSING and self.holder is not None

    def mend(self) -> list[str]:
        """What was put right; empty: nothing was wrong."""
        reasons = []
        for step in (
            self._attempts,
            self._traces,
            self._token,
            self._status,
            self._fields,
            self._count,
            self._workflow,
        ):
            if reason := step():
                reasons.append(reason)
                self.read()
        return reasons

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _attempts(self) -> str:
        reason, holder = "", self.holder if self.is_leased else None
        if holder and (holder.outcome, holder.number, holder.finished_at) != (
            Outcome.RUNNING,
            self.job.attempt_number,
            None,
        ):
            number = self.job.attempt_number
            self._write(
                holder, outcome=Outcome.RUNNING, finished_at=None, number=number, error_type="", error=""
            )
            reason = "its lease is real, so its attempt runs"
        for attempt in self.attempts:
            if attempt is holder:
                continue
            if attempt.outcome == Outcome.RUNNING:
                self._close(attempt)
                reason = "an attempt was called running that is over"
            elif attempt.finished_at is None:
                self._write(attempt, finished_at=Now())
                reason = "an attempt had no end"
        return reason

    def _close(self, attempt: Attempt) -> None:
        """As the job says that it ended, if it was the last one; else it was lost."""
        is_last = attempt is self.newest and attempt.token == self.job.lease_token
        outcome = _SAME.get(Status(self.job.status)) if is_last and self.job.status in _SAME else None
        error = {} if outcome else {"error_type": WorkerLost.__name__, "error": "Nobody runs it any more."}
        self._write(attempt, outcome=outcome or Outcome.LOST, finished_at=Now(), **error)

    def _traces(self) -> str:
        """Every recovery and every release has its event; an attempt that was lost says so."""
        lost = [a for a in self.attempts if a.outcome == Outcome.LOST]
        if len(lost) < self.events[Kind.RECOVERED]:
            forgotten = [
                a for a in self.attempts if a.error_type == WorkerLost.__name__ and a.outcome != Outcome.LOST
            ]
            for attempt in forgotten:
                self._write(attempt, outcome=Outcome.LOST, finished_at=attempt.finished_at or Now())
            return "a lost attempt was called something else" if forgotten else ""
        released = sum(a.outcome == Outcome.RELEASED for a in self.attempts)
        missing = {
            Kind.RECOVERED: len(lost) - self.events[Kind.RECOVERED],
            Kind.RELEASED: released - self.events[Kind.RELEASED],
        }
        for kind, count in missing.items():
            Event.record([self.id] * max(0, count), kind, detail="written by reconcile: it was missing")
        return "the trace of an attempt was missing" if any(n > 0 for n in missing.values()) else ""

    def _token(self) -> str:
        lost = [a.token + 1 for a in self.attempts if a.outcome == Outcome.LOST]
        least = max([a.token for a in self.attempts] + lost, default=0)
        if self.job.lease_token >= least:
            return ""
        self._update(lease_token=least)
        return "its token was behind its attempts"

    # -- the job -------------------------------------------------------------------------------------------------------

    def _status(self) -> str:
        becomes, why = self._verdict()
        if becomes == Status.COMPLETED:
            restore(self.job.pk, Status.COMPLETED, why)
        elif becomes == Status.PENDING:
            restore(self.job.pk, Status.PENDING, why)
        elif becomes == Status.FAILED:
            self._update(last_error=(self.newest and self.newest.error) or "It failed.")
        elif becomes == Status.CANCELLED:
            self._cancel(why)
        return why

    def _verdict(self) -> tuple[Status | None, str]:
        job, newest = self.job, self.newest
        is_done = (newest is not None and newest.outcome == Outcome.COMPLETED) or self._has_artifact()
        otherwise = Status.COMPLETED if is_done else Status.PENDING
        if job.status == Status.PROCESSING:
            return (None, "") if self.is_leased else (otherwise, "no attempt holds its lease")
        if job.status == Status.COMPLETED:
            ended = (
                newest.outcome == Outcome.COMPLETED and newest.token == job.lease_token if newest else False
            )
            if ended or self.events[Kind.RECONCILED]:
                return None, ""
            return otherwise, "nothing says who completed it"
        if job.status == Status.FAILED:
            by_loss = newest is not None and newest.outcome == Outcome.LOST
            by_loss = by_loss and job.attempt_number >= job.max_attempts
            if by_loss or (newest is not None and newest.outcome == Outcome.FAILED):
                return (None, "") if job.last_error else (Status.FAILED, "it did not say why it failed")
            return otherwise, "its newest attempt has not failed"
        if job.status == Status.CANCELLED:
            if self.events[Kind.CANCELLED]:
                return None, ""
            return (otherwise if is_done else Status.CANCELLED), "nothing says who cancelled it"
        if job.status not in Status.values:
            return otherwise, f"{job.status!r} is no status"
        return None, ""

    def _has_artifact(self) -> bool:
        kind = registry.find(self.job.type)
        try:
            return kind is not None and kind.artifact is not None and kind.artifact(self.job.payload) is True
        except Exception:  # logged when all artifacts are asked about
            return False

    def _cancel(self, why: str) -> None:
        before = self.job.status
        self._update(
            **NO_LEASE, cancelled_at=Coalesce("cancelled_at", Now()), cancelled_because="", blocked=False
        )
        Event.record([self.id], Kind.CANCELLED, detail=f"by hand; found by reconcile: {why}")
        announce([Transition(self.id, self.job.type, Status.PENDING, before, self.job.workflow_id)])
        if self.job.has_dependants:
            orchestrator.advance([self.id])

    def _fields(self) -> str:
        """What goes with a status."""
        job = self.job
        changes: dict[str, Any] = {}
        if job.status != Status.PROCESSING and (job.worker_id or job.claim_expires_at):
            changes |= NO_LEASE
        if job.claimed_at and job.status not in (Status.PROCESSING, Status.COMPLETED):
            changes["claimed_at"] = None
        if job.last_error and job.status == Status.COMPLETED:
            changes["last_error"] = ""
        if (job.completed_at is not None) != (job.status == Status.COMPLETED):
            changes["completed_at"] = Now() if job.status == Status.COMPLETED else None
        if (job.cancelled_at is not None) != (job.status == Status.CANCELLED):
            changes["cancelled_at"] = Now() if job.status == Status.CANCELLED else None
        if job.cancelled_because and job.status != Status.CANCELLED:
            changes["cancelled_because"] = ""
        if job.blocked and job.status != Status.WAITING:
            changes["blocked"] = False
        if not 0 <= job.progress_percent <= 100:
            changes["progress_percent"] = min(100, max(0, job.progress_percent))
        if not job.has_dependants and job.dependants.exists():
            changes["has_dependants"] = True
        self._update(**changes)
        return f"{', '.join(sorted(changes))} did not fit its status" if changes else ""

    def _count(self) -> str:
        """Every claim since it started over is counted, and nothing runs after a completion without a trace."""
        completed = [a.token for a in self.attempts if a.outcome == Outcome.COMPLETED]
        ran_again = completed and self.newest and self.newest.token > completed[0]
        if ran_again and not self.events[Kind.RECONCILED]:
            Event.record([self.id], Kind.RECONCILED, detail="it ran again after its completion")
            return "it ran again after its completion"
        job = self.job
        claims = sum(a.outcome != Outcome.RELEASED for a in self.attempts)
        starts_over = sum(self.events[kind] for kind in STARTS_OVER)
        number = claims if claims < job.attempt_number or not starts_over else job.attempt_number
        number = min(max(0, number), max(job.max_attempts, 1, claims))
        most = max(1, job.max_attempts, number)
        if self.is_leased or (number, most) == (job.attempt_number, job.max_attempts):
            return ""
        self._update(attempt_number=number, max_attempts=most)
        return "its attempts were miscounted"

    def _workflow(self) -> str:
        job, edges = self.job, orchestrator.edges_of([self.id])[self.id]
        if (
            job.status == Status.PENDING
            and not all(edge.is_satisfied for edge in edges)
            and not self._began(edges)
        ):
            orchestrator.hold([self.id])
            return "a prerequisite of it is not completed"
        if (
            job.status == Status.WAITING
            and job.blocked
            and orchestrator.verdict(edges)[0] != orchestrator.BLOCKED
        ):
            orchestrator.advance(orchestrator.settle(Job.objects.filter(pk=self.id)))
            return "its prerequisites have ended"
        cause = Job.objects.filter(pk=job.cancelled_because).exclude(
            status__in=(Status.FAILED, Status.CANCELLED)
        )
        if job.status == Status.CANCELLED and cause.exists():
            orchestrator.revive([job.cancelled_because])
            return "what had cancelled it has not failed"
        return ""

    def _began(self, edges: Iterable[orchestrator.Edge]) -> bool:
        """It could be claimed before its prerequisites started over: then it goes on."""
        unmet = [edge.needs for edge in edges if not edge.is_satisfied]
        again = Event.objects.filter(job__in=unmet, kind__in=STARTS_OVER, at__gte=self.job.run_at)
        return {*again.values_list("job_id", flat=True)} == {*unmet}

    def _update(self, **changes: Any) -> None:
        if changes:
            Job.objects.filter(pk=self.id).update(**changes)

    def _write(self, attempt: Attempt, **changes: Any) -> None:
        Attempt.objects.filter(pk=attempt.pk).update(**changes)


def restore(job_id: str, becomes: Status, why: str) -> None:
    """Make a locked job completed, or let it start over, with all that follows from it. In the caller's transaction."""
    job = Job.objects.filter(pk=job_id)
    row = job.values("type", "status", "workflow_id").get()
    if becomes == Status.COMPLETED:
        job.update(
            **NO_LEASE,
            status=Status.COMPLETED,
            completed_at=Coalesce("completed_at", Now()),
            progress_percent=100,
            last_error="",
            blocked=False,
            cancelled_at=None,
            cancelled_because="",
            lease_token=F("lease_token") + 1,
        )
    else:
        job.update(**NO_LEASE | orchestrator.AFRESH, blocked=False, status=Status.PENDING, run_at=Now())
    Event.record([job_id], Kind.RECONCILED, detail=why)
    announce([Transition(job_id, row["type"], row["status"], becomes, row["workflow_id"])])
    if becomes == Status.COMPLETED:
        orchestrator.revive([job_id])
        orchestrator.advance([job_id])
    elif orchestrator.edges_of([job_id])[job_id]:
        orchestrator.hold([job_id])  # what it needs may be missing as well
    wakeup.on_commit()
