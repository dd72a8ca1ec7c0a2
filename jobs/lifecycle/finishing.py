"""processing → completed, waiting, failed or pending: how a worker ends its lease.

Every exit passes `_leave`: the rows are locked, the token is checked, then everything that follows is written.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from jobs import conf, database, orchestrator, payloads, registry, wakeup
from jobs.backoff import LONGEST, backoff
from jobs.exceptions import LeaseLost
from jobs.lifecycle.leases import FailureReport, Lease, LockedJob, lock, lock_leased
from jobs.models import Attempt, Event, Job, Kind, Outcome, Status
from jobs.signals import Transition, announce

NO_LEASE: dict[str, Any] = {"worker": None, "claim_expires_at": None}


def complete(lease: Lease, result: Any = None) -> None:
    """The job is done and its result durable. Completing again with the same token is a success too."""
    if lease in complete_many([(lease, result)]):
        raise LeaseLost(lease.job_id)


def complete_many(reports: Sequence[tuple[Lease, Any]]) -> set[Lease]:
    """Complete a batch in one transaction; returns the leases that were lost."""
    return database.when_unlocked(lambda: _complete(reports)) if reports else set()


def _complete(reports: Sequence[tuple[Lease, Any]]) -> set[Lease]:
    with_result = [
        (lease.job_id, payloads.encode(result, what="result"))
        for lease, result in reports
        if result is not None
    ]
    with database.atomic():
        rows = lock(lease.job_id for lease, _ in reports)
        held = [lease for lease, _ in reports if (row := rows.get(lease.job_id)) and row.is_under(lease)]
        _leave(
            [rows[lease.job_id] for lease in held],
            Outcome.COMPLETED,
            {"status": Status.COMPLETED, "completed_at": Now(), "progress_percent": 100},
        )
        mine = {lease.job_id for lease in held}
        for job_id, text in with_result:
            if job_id in mine:
                _store_result(job_id, text)
    lost = {lease for lease, _ in reports} - set(held)
    return {lease for lease in lost if not _completed_before(lease, rows.get(lease.job_id))}


def _completed_before(lease: Lease, row: LockedJob | None) -> bool:
    return row is not None and row.status == Status.COMPLETED and row.lease_token == lease.token


def _store_result(job_id: str, text: str) -> None:
    cast = "::jsonb" if database.is_postgres() else ""
    with database.connection().cursor() as cursor:
        cursor.execute(f"UPDATE jobs_job SET result = %s{cast} WHERE id = %s", [text, job_id])


def fail(lease: Lease, failure: FailureReport) -> Status:
    """The attempt failed: try again after a while, or give up. Returns the job's new status."""
    return database.when_unlocked(lambda: _fail(lease, failure))


def _fail(lease: Lease, failure: FailureReport) -> Status:
    settings = conf.current()
    with database.atomic():
        try:
            row = lock_leased(lease)
        except LeaseLost:
            return _failed_before(lease)
        error = shorten(f"{failure.type}: {failure.message}", settings.error_max_chars)
        if failure.permanent or row.attempt_number >= row.max_attempts:
            changes: dict[str, Any] = {"status": Status.FAILED}
        else:
            wait = failure.retry_in
            if wait is None:
                wait = backoff(
                    row.attempt_number,
                    base=settings.backoff_base,
                    cap=settings.backoff_cap,
                    chance=random.random(),
                )
            wait = min(LONGEST, max(timedelta(0), wait))  # a handler may ask for anything
            changes = {"status": Status.WAITING, "run_at": database.now_plus(wait)}
        _leave([row], Outcome.FAILED, {**changes, "last_error": error}, failure=failure)
    return Status(changes["status"])


def _failed_before(lease: Lease) -> Status:
    """A repeated report of the same failure (its answer got lost) is answered as the first was."""
    attempt = Attempt.objects.filter(job_id=lease.job_id, token=lease.token, outcome=Outcome.FAILED)
    job = Job.objects.filter(pk=lease.job_id, lease_token=lease.token).first()
    if job is None or not attempt.exists():
        raise LeaseLost(lease.job_id)
    return Status(job.status)


def release(leases: Collection[Lease], *, reason: str = "") -> set[Lease]:
    """Give jobs back uncounted, because the worker drains. Returns the leases that were lost already."""

    def write() -> set[Lease]:
        with database.atomic():
            rows = lock(lease.job_id for lease in leases)
            held = [lease for lease in leases if (row := rows.get(lease.job_id)) and row.is_under(lease)]
            _leave(
                [rows[lease.job_id] for lease in held],
                Outcome.RELEASED,
                {"status": Status.PENDING, "attempt_number": F("attempt_number") - 1},
            )
            Event.record([lease.job_id for lease in held], Kind.RELEASED, detail=reason)
            if held:
                wakeup.on_commit()
        return set(leases) - set(held)

    return database.when_unlocked(write) if leases else set()


def _leave(
    rows: Sequence[LockedJob],
    outcome: Outcome,
    changes: dict[str, Any],
    *,
    failure: FailureReport | None = None,
) -> None:
    """End the leases of locked rows: the jobs, their attempts, and what depends on them."""
    if not rows:
        return
    after = Status(changes["status"])
    ids = [row.id for row in rows]
    Job.objects.filter(pk__among=frozenset(ids)).update(**{**NO_LEASE, **changes})
    close_attempts(ids, outcome, failure)
    announce(
        [
            Transition(
                row.id, row.type, row.status, after, row.workflow_id, failure.message if failure else ""
            )
            for row in rows
        ]
    )
    if after in (Status.COMPLETED, Status.FAILED):
        orchestrator.advance([row.id for row in rows if row.has_dependants])
    _wake_for_freed_slots(rows)


def close_attempts(job_ids: Collection[str], outcome: Outcome, failure: FailureReport | None = None) -> None:
    """End the one running attempt of each of these locked jobs."""
    details = {}
    if failure:
        details = {
            "error_type": payloads.storable(failure.type)[:200],
            "error": shorten(failure.message, 100_000),
            "traceback": shorten(failure.traceback, 100_000),
        }
    Attempt.objects.filter(job__pk__among=frozenset(job_ids), outcome=Outcome.RUNNING).update(
        outcome=outcome, finished_at=Now(), **details
    )


def _wake_for_freed_slots(rows: Sequence[LockedJob]) -> None:
    """A type with a limit has room again: other workers may be waiting for it."""
    if any((kind := registry.find(row.type)) and kind.concurrency for row in rows):
        wakeup.on_commit()


def shorten(text: str, limit: int) -> str:
    """Keep the beginning and, since causes are named last, more of the end. What no database stores is replaced."""
    text = payloads.storable(text)
    if len(text) <= limit:
        return text
    mark = " … "
    head = (limit - len(mark)) // 4
    return text[:head] + mark + text[-(limit - len(mark) - head) :]
