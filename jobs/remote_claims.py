"""Claims over HTTP: an answer that got lost can be asked for again, and a worker holds no more than its places."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from jobs import conf, database, remote
from jobs.exceptions import UnknownWorker, WorkerDisabled, WorkerOutdated
from jobs.lifecycle import Lease, live_leases
from jobs.lifecycle.bands import Band, find_bands
from jobs.lifecycle.claiming import claim_from, eligible_types
from jobs.lifecycle.leases import ClaimedJob, is_dead
from jobs.lifecycle.recovering import recover_expired
from jobs.models import Attempt, Job, Outcome, Worker, WorkerStatus
from jobs.versions import is_outdated


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob(ClaimedJob):
    """A job under a lease, and until when."""

    expires_at: datetime

    @classmethod
    def of(cls, job: ClaimedJob, expires_at: datetime) -> HeldJob:
        known = {field.name: getattr(job, field.name) for field in fields(ClaimedJob)}
        return cls(**known, expires_at=expires_at)


def claim(
    worker: Worker, *, key: str | None, slots: int, types: Collection[str] | None = None
) -> list[HeldJob]:
    """Up to `slots` jobs. The same key again gets the same leases, as far as they live, and never further ones;
    without a key each claim is a new one."""
    settings = conf.current()
    if worker.disabled:
        raise WorkerDisabled(worker.name)
    if is_outdated(worker.version, settings.min_worker_version):
        raise WorkerOutdated(worker.name, worker.version, settings.min_worker_version)
    names = remote.offered(eligible_types(worker, types))
    bands = find_bands(names)
    if not bands:
        return read_held(worker, _answered(worker, key) or [])
    return database.when_unlocked(lambda: _claim_once(worker, key, slots, bands))


def _claim_once(worker: Worker, key: str | None, slots: int, bands: list[Band]) -> list[HeldJob]:
    with database.atomic():
        # Requests of one worker come one after the other, so that none sees a key, or places, as free that are not.
        concurrency, is_busy = _lock_places(worker)
        answered = _answered(worker, key)
        if answered is not None:
            return read_held(worker, answered)
        held = _held_by_type(worker)
        free = min(slots, concurrency - held.total())
        jobs = claim_from(bands, worker, free, held) if free > 0 else []
        if not jobs:
            return []
        if not is_busy:
            remote.mark_busy(worker)
        if key is not None:
            _keep_answer(worker, key, [[job.lease.job_id, job.lease.token] for job in jobs])
        expires_at = _first_expiry(jobs)
    return [HeldJob.of(job, expires_at) for job in jobs]


# Written by hand: Django takes longer to compose these statements, for each request anew, than they take to run.


def _lock_places(worker: Worker) -> tuple[int, bool]:
    """How many jobs this worker runs at once, and whether it is known to be busy. Its row is locked."""
    lock = "FOR NO KEY UPDATE" if database.is_postgres() else ""
    rows = database.fetch(f"SELECT concurrency, status FROM jobs_worker WHERE id = %s {lock}", [worker.pk])
    if not rows:
        raise UnknownWorker(worker.pk)
    return int(rows[0][0]), rows[0][1] == WorkerStatus.BUSY


def _answered(worker: Worker, key: str | None) -> list[Lease] | None:
    if key is None:
        return None
    rows = database.fetch(
        "SELECT leases FROM jobs_claimanswer WHERE worker_id = %s AND key = %s", [worker.pk, key]
    )
    return [Lease(job_id, token, worker.pk) for job_id, token in json.loads(rows[0][0])] if rows else None


def _keep_answer(worker: Worker, key: str, leases: list[list[Any]]) -> None:
    with database.connection().cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_claimanswer (worker_id, key, at, leases) VALUES (%s, %s, {database.now_sql()}, %s)",
            [worker.pk, key, json.dumps(leases)],
        )


def _held_by_type(worker: Worker) -> Counter[str]:
    """How many live leases this worker holds. Expired ones end here: they take none of its places."""
    held = _count_held(worker)
    expired = [name for name, _, expired in held if expired]
    if is_dead(bool(expired)):
        recover_expired(expired)
        held = _count_held(worker)
    return Counter({name: count for name, count, _ in held})


def _count_held(worker: Worker) -> list[tuple[Any, ...]]:
    """By type: how many leases, and how many of them have expired."""
    return database.fetch(
        f"""
        SELECT type, count(*), count(CASE WHEN claim_expires_at <= {database.now_sql()} THEN 1 END)
        FROM jobs_job WHERE status = 'processing' AND worker_id = %s GROUP BY type
        """,
        [worker.pk],
    )


def _first_expiry(jobs: Sequence[ClaimedJob]) -> datetime:
    """They were leased a moment ago, together."""
    ids = [job.lease.job_id for job in jobs]
    condition, params = database.among("id", ids, vendor=database.connection().vendor)
    ((first,),) = database.fetch(f"SELECT min(claim_expires_at) FROM jobs_job WHERE {condition}", params)
    return database.moment(first)


def read_held(worker: Worker, leases: Collection[Lease]) -> list[HeldJob]:
    """The jobs of those of these leases that live."""
    if not leases:
        return []
    live = live_leases(worker.pk).keys() & set(leases)
    jobs = Job.objects.leased().filter(pk__among=frozenset(lease.job_id for lease in live)).in_claim_order()
    held = [_held(job) for job in jobs.defer("result", "last_error")]
    return [job for job in held if job.lease in live]


def _held(job: Job) -> HeldJob:
    assert job.worker_id is not None
    assert job.claim_expires_at is not None
    return HeldJob(
        lease=Lease(job.pk, job.lease_token, job.worker_id),
        type=job.type,
        payload=job.payload,
        attempt=job.attempt_number,
        max_attempts=job.max_attempts,
        priority=job.priority,
        correlation_id=job.correlation_id,
        submitter=job.submitter,
        workflow_id=job.workflow_id,
        expires_at=job.claim_expires_at,
    )


def tokens_of(worker: Worker, job_id: str) -> list[int]:
    """The tokens of the leases of this job that this worker holds or has held."""
    mine = Attempt.objects.filter(job_id=job_id, worker_id=worker.pk)
    return list(mine.order_by("token").values_list("token", flat=True))


def was_released(lease: Lease) -> bool:
    """By this very lease: a repeated release, whose answer got lost, is answered as the first was."""
    mine = Attempt.objects.filter(job_id=lease.job_id, token=lease.token, worker_id=lease.worker_id)
    return bool(mine.filter(outcome=Outcome.RELEASED).exists())
