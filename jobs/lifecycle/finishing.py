"""processing → completed, waiting, failed or pending: how a worker ends its lease.

Every exit demands the live lease: status, token and worker must match under the row's lock, and it must not have
expired. Whatever follows from the end of a lease is written by `_follow_up`, in the same transaction.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import F

from jobs import conf, database, orchestrator, payloads, registry, wakeup
from jobs.backoff import LONGEST, backoff
from jobs.breakers import binding
from jobs.exceptions import LeaseLost
from jobs.lifecycle.leases import FailureReport, Lease, LockedJob, lock, lock_leased, spared
from jobs.models import Attempt, Event, Job, Kind, Outcome, Status
from jobs.signals import Transition, announce

NO_LEASE: dict[str, Any] = {"worker": None, "claimed_at": None, "claim_expires_at": None}
"""For every end of a lease but completion, which keeps claimed_at."""


def complete(lease: Lease, result: Any = None) -> None:
    """The job is done and its result durable. Completing again with the same token is a success too."""
    if lease in complete_many([(lease, result)]):
        raise LeaseLost(lease.job_id)


def complete_many(reports: Sequence[tuple[Lease, Any]]) -> set[Lease]:
    """Complete a batch in one transaction; returns the leases that were lost."""
    return database.when_unlocked(lambda: _complete(reports)) if reports else set()


def _complete(reports: Sequence[tuple[Lease, Any]]) -> set[Lease]:
    with database.atomic():
        ended = _end_completed(reports)
        if len(ended) < len(reports):
            done = {row.id for row in ended}
            late = spared([lease for lease, _ in reports if lease.job_id not in done])
            ended += _end_completed(
                [report for report in reports if report[0] in late], although_expired=True
            )
        _follow_up(ended, Outcome.COMPLETED, Status.COMPLETED)
        mine = {row.id for row in ended}
        return {lease for lease, _ in reports if lease.job_id not in mine and not _completed_before(lease)}


@dataclass(frozen=True, slots=True)
class Ended:
    """A job whose lease this transaction has ended."""

    id: str
    type: str
    has_dependants: bool
    workflow_id: str | None


def _end_completed(reports: Sequence[tuple[Lease, Any]], *, although_expired: bool = False) -> list[Ended]:
    """One conditional UPDATE for the whole batch: status, token, worker and expiry decide, row by row, under its
    lock."""
    if not reports:
        return []
    postgres = database.is_postgres()
    leases = [
        (
            lease.job_id,
            lease.token,
            lease.worker_id,
            None if result is None else payloads.encode(result, what="result"),
        )
        for lease, result in sorted(reports, key=lambda report: report[0].job_id)
    ]
    source = (
        "jsonb_array_elements(%s::jsonb) AS item, LATERAL (SELECT item ->> 0 AS id, (item ->> 1)::bigint AS token,"
        " item ->> 2 AS worker, (item ->> 3)::jsonb AS result) AS lease"
        if postgres
        else "(SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS token,"
        " json_extract(value, '$[2]') AS worker, json_extract(value, '$[3]') AS result FROM json_each(%s)) AS lease"
    )
    rows = database.fetch(
        f"""
        UPDATE jobs_job
        SET status = 'completed', completed_at = {database.now_sql()}, progress_percent = 100, result = lease.result,
            last_error = '', worker_id = NULL, claim_expires_at = NULL
        FROM {source}
        WHERE jobs_job.id = lease.id AND jobs_job.status = 'processing'
          AND jobs_job.lease_token = lease.token AND jobs_job.worker_id = lease.worker
          {"" if although_expired else f"AND jobs_job.claim_expires_at > {database.now_sql()}"}
        RETURNING jobs_job.id, jobs_job.type, jobs_job.has_dependants, jobs_job.workflow_id
        """,
        [json.dumps(leases)],
    )
    return [Ended(*row) for row in rows]


def _completed_before(lease: Lease) -> bool:
    mine = Job.objects.filter(
        pk=lease.job_id, lease_token=lease.token, processed_by_worker_id=lease.worker_id
    )
    return bool(mine.filter(status=Status.COMPLETED).exists())


def fail(lease: Lease, failure: FailureReport) -> Status:
    """The attempt failed: try again after a while, or give up. Returns the job's new status."""
    return database.when_unlocked(lambda: _fail(lease, failure))


def _fail(lease: Lease, failure: FailureReport) -> Status:
    settings = conf.current()
    outcome = Outcome.FAILED if failure.counted else Outcome.RELEASED
    with database.atomic():
        try:
            row = lock_leased(lease)
        except LeaseLost:
            return _failed_before(lease, outcome)
        error = shorten(f"{failure.type}: {failure.message}", settings.error_max_chars)
        if failure.permanent or (failure.counted and row.attempt_number >= row.max_attempts):
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
        if outcome == Outcome.RELEASED:
            changes["attempt_number"] = F("attempt_number") - 1
            Event.record([row.id], Kind.RELEASED, detail=error)
        _leave([row], outcome, {**changes, "last_error": error}, failure=failure)
    return Status(changes["status"])


def _failed_before(lease: Lease, outcome: Outcome) -> Status:
    """A repeated report of the same failure (its answer got lost) is answered as the first was."""
    attempt = Attempt.objects.filter(
        job_id=lease.job_id, token=lease.token, worker_id=lease.worker_id, outcome=outcome
    )
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
                wakeup.on_commit(min(rows[lease.job_id].priority for lease in held))
        return set(leases) - set(held)

    return database.when_unlocked(write) if leases else set()


def _leave(
    rows: Sequence[LockedJob],
    outcome: Outcome,
    changes: dict[str, Any],
    *,
    failure: FailureReport | None = None,
) -> None:
    """End the leases of locked rows: the jobs, and all that follows from it."""
    if rows:
        Job.objects.filter(pk__among=frozenset(row.id for row in rows)).update(**{**NO_LEASE, **changes})
        _follow_up(rows, outcome, Status(changes["status"]), failure)


def _follow_up(
    ended: Sequence[LockedJob | Ended], outcome: Outcome, after: Status, failure: FailureReport | None = None
) -> None:
    """What the end of a lease brings with it, in the same transaction: attempts, dependants, the word to other apps."""
    if not ended:
        return
    close_attempts([row.id for row in ended], outcome, failure)
    error = failure.message if failure else ""
    announce(
        [Transition(row.id, row.type, Status.PROCESSING, after, row.workflow_id, error) for row in ended]
    )
    if after in (Status.COMPLETED, Status.FAILED):
        orchestrator.advance([row.id for row in ended if row.has_dependants])
    if any((kind := registry.find(row.type)) and kind.concurrency for row in ended):
        wakeup.on_commit()  # a type with a limit has room again: other workers may be waiting for it
    # Last, since it may lock breakers: whoever holds one waits for no job.
    if outcome == Outcome.COMPLETED:
        binding.note_completed(ended)
    elif failure:
        binding.note_failed(ended, failure)


def close_attempts(job_ids: Collection[str], outcome: Outcome, failure: FailureReport | None = None) -> None:
    """End the one running attempt of each of these locked jobs."""
    columns = {"outcome": outcome.value}
    if failure:
        columns |= {
            "error_type": shorten(failure.type, 200),
            "error": shorten(failure.message, 100_000),
            "traceback": shorten(failure.traceback, 100_000),
        }
    changes = ", ".join(f"{name} = %s" for name in columns)
    condition, params = database.among("job_id", job_ids, vendor=database.connection().vendor)
    with database.connection().cursor() as cursor:
        cursor.execute(
            f"UPDATE jobs_attempt SET {changes}, finished_at = {database.now_sql()}"
            f" WHERE outcome = 'running' AND {condition}",
            [*columns.values(), *params],
        )


def shorten(text: str, limit: int) -> str:
    """Keep the beginning and, since causes are named last, more of the end. What no database stores is replaced."""
    text = payloads.storable(text)
    if len(text) <= limit:
        return text
    mark = " … "
    head = (limit - len(mark)) // 4
    return text[:head] + mark + text[-(limit - len(mark) - head) :]
