"""pending → processing: give a worker up to n jobs in one short transaction."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from jobs import conf, database, prepared, registry
from jobs.breakers import binding
from jobs.database import Subselect
from jobs.exceptions import UnknownWorker, WorkerDisabled, WorkerOffline
from jobs.lifecycle.bands import Band, candidates, find_bands
from jobs.lifecycle.leases import ClaimedJob, Lease
from jobs.lifecycle.rooms import Room, rooms_for
from jobs.models import Job, JobTypeState, Status, Worker, WorkerStatus
from jobs.signals import Transition, announce

AGED_SHARE = 4
"""One job in four goes to those that have waited longer than PRIORITY_AGEING, oldest first."""
_SPARE = 64
"""How many candidates beyond those wanted are looked at, since other claimers may hold the first ones."""


def claim(
    worker: Worker,
    n: int = 1,
    *,
    types: Collection[str] | None = None,
    running: Mapping[str, int] | None = None,
) -> list[ClaimedJob]:
    """Up to n jobs for this worker, most urgent first. An empty list means: nothing it may run now.

    `running` says how many jobs of each type the worker runs already, for types with a limit per worker.
    """
    names = eligible_types(worker, types)
    bands = find_bands(names) if n > 0 else []
    if not bands:
        return []
    return database.when_unlocked(lambda: claim_from(bands, worker, n, running or {}))


def eligible_types(worker: Worker, types: Collection[str] | None = None) -> list[str]:
    """The types this worker handles and has the capabilities for."""
    handled = worker.job_types if types is None else [name for name in worker.job_types if name in types]
    has = set(worker.capabilities)
    kinds = ((name, registry.find(name)) for name in handled)
    return [name for name, kind in kinds if kind is None or kind.requires <= has]


def claim_from(bands: list[Band], worker: Worker, n: int, running: Mapping[str, int]) -> list[ClaimedJob]:
    """Up to n jobs of these bands, which may be a moment old; in a transaction of its own, or as part of one."""
    with database.atomic():
        types = list(dict.fromkeys(band.type for band in bands))
        me, states, shut = _lock_worker(worker, types)
        rooms = {} if me.draining else rooms_for(types, states, shut, me, running)
        jobs = _take_aged(me, bands, rooms, n)
        for job in jobs:
            rooms[job.type] = rooms[job.type].less(1)
        jobs += _take(me, bands, rooms, n - len(jobs))
        binding.note_probes((name, job.lease) for job in jobs if (name := rooms[job.type].probes))
        announce(
            [
                Transition(job.lease.job_id, job.type, Status.PENDING, Status.PROCESSING, job.workflow_id)
                for job in jobs
            ]
        )
    return jobs


def _lock_worker(
    worker: Worker, types: Collection[str]
) -> tuple[Worker, dict[str, JobTypeState], dict[str, bool]]:
    """The worker's own row, held so that disabling it and claiming come one after the other; the types' states; and
    those of their breakers that are not closed, each with whether its time for trial calls has come."""
    breakers = binding.breakers_of(types)
    breaker = (
        "b.name, b.state = 'half-open' OR b.retry_at <= " + database.now_sql() if breakers else "NULL, NULL"
    )
    join = (
        f"LEFT JOIN jobs_breaker b ON b.state <> 'closed' AND b.name IN ({', '.join(['%s'] * len(breakers))})"
        if breakers
        else ""
    )
    rows = prepared.fetch(
        f"""
        SELECT w.name, w.status, w.disabled, w.draining, t.name, t.paused, t.concurrency, {breaker}
        FROM jobs_worker w LEFT JOIN jobs_jobtypestate t ON t.name IN ({", ".join(["%s"] * len(types))}) {join}
        WHERE w.id = %s {"FOR NO KEY UPDATE OF w" if database.is_postgres() else ""}
        """,
        [*types, *breakers, worker.pk],
    )
    if not rows:
        raise UnknownWorker(worker.pk)
    name, status, disabled, draining = rows[0][:4]
    if disabled:
        raise WorkerDisabled(name)
    if status == WorkerStatus.OFFLINE:
        raise WorkerOffline(name)
    me = Worker(pk=worker.pk, name=name, draining=draining, capabilities=worker.capabilities)
    states = [
        JobTypeState(name=row[4], paused=row[5], concurrency=row[6]) for row in rows if row[4] is not None
    ]
    shut = {row[7]: bool(row[8]) for row in rows if row[7] is not None}
    return me, {state.name: state for state in states}, shut


def _take_aged(me: Worker, bands: list[Band], rooms: dict[str, Room], n: int) -> list[ClaimedJob]:
    """The share of those that have waited too long: oldest first, whatever their priority."""
    age = conf.current().priority_ageing.total_seconds()
    overdue = [band for band in bands if band.waited > age]
    quota = aged_quota(n, random.random())
    if not overdue or not quota or len({band.priority for band in bands}) == 1:
        return []
    return _take(me, overdue, rooms, quota, order=("run_at", "id"), min_age=age)


def aged_quota(n: int, chance: float) -> int:
    """How many of n claims go to jobs that have waited too long; the fraction is settled by chance."""
    share = n / AGED_SHARE
    return int(share) + (1 if chance < share - int(share) else 0)


def _take(
    me: Worker,
    bands: list[Band],
    rooms: dict[str, Room],
    n: int,
    *,
    order: tuple[str, ...] = ("priority", "run_at", "id"),
    min_age: float = 0.0,
) -> list[ClaimedJob]:
    """Lease up to n jobs of these bands; those that another claimer holds are skipped."""
    bands = [band for band in bands if band.type in rooms and rooms[band.type].slots > 0]
    if not bands or n <= 0:
        return []
    first = candidates(bands, rooms, n + _SPARE, min_age=min_age, order=", ".join(order))
    sql, params = _locking_sql(order, database.connection().vendor)
    rows = _lease(me, Subselect(sql.replace(_CANDIDATES, first.sql), [*params, *first.params, n]))
    rows.sort(key=lambda row: (row[-2], row[-1], row[0]))  # by priority, run_at, id
    return [_claimed(row, me) for row in rows]


_CANDIDATES = "-- candidates --"
_SOME = 2**31 - 1


@cache
def _locking_sql(order: tuple[str, ...], vendor: str) -> tuple[str, tuple[Any, ...]]:
    """SELECT … LIMIT n FOR UPDATE SKIP LOCKED over the candidates, as Django writes it; composing it anew takes longer
    than running it. The parameters of the candidates and n come after those returned."""
    chosen = Job.objects.pending().filter(pk__among=Subselect(_CANDIDATES, []))
    locked = chosen.order_by(*order).select_for_update(skip_locked=True)
    sql, params = locked.values("pk")[:_SOME].query.get_compiler(database.alias()).as_sql()
    return sql.replace(f"LIMIT {_SOME}", "LIMIT %s"), params


_RETURNED = """id, type, payload, lease_token, attempt_number, max_attempts, correlation_id, submitter, workflow_id,
    priority, CAST(run_at AS text)"""


def _lease(me: Worker, ids: Subselect) -> list[tuple[Any, ...]]:
    postgres = database.is_postgres()
    now = database.now_sql()
    condition, params = database.among("id", ids, vendor=database.connection().vendor)
    lease = f"""
        UPDATE jobs_job
        SET status = 'processing', worker_id = %s, lease_token = lease_token + 1, attempt_number = attempt_number + 1,
            claimed_at = {now}, claim_expires_at = {database.later_sql()}, started_at = coalesce(started_at, {now}),
            last_checkpoint = {now}, current_step = '', progress_percent = 0,
            processed_by_worker_id = %s, processed_by_worker_name = %s
        WHERE {condition}
        RETURNING {_RETURNED}
        """
    values = [me.pk, conf.current().claim_duration.total_seconds(), me.pk, me.name, *params]
    if postgres:
        opened = f"INSERT INTO jobs_attempt {_ATTEMPT} FROM leased"
        return prepared.fetch(
            f"WITH leased AS ({lease}), opened AS ({opened}) SELECT * FROM leased", [*values, me.pk, me.name]
        )
    rows = database.fetch(lease, values)
    _open_attempts(me, [row[0] for row in rows])
    return rows


_ATTEMPT = """(job_id, token, number, worker_id, worker_name)
    SELECT id, lease_token, attempt_number, %s, %s"""


def _open_attempts(me: Worker, ids: list[str]) -> None:
    if ids:
        condition, params = database.among("id", ids, vendor="sqlite")
        with database.connection().cursor() as cursor:
            cursor.execute(
                f"INSERT INTO jobs_attempt {_ATTEMPT} FROM jobs_job WHERE {condition}",
                [me.pk, me.name, *params],
            )


def _claimed(row: tuple[Any, ...], me: Worker) -> ClaimedJob:
    (
        id,
        type_name,
        payload,
        token,
        attempt,
        max_attempts,
        correlation_id,
        submitter,
        workflow_id,
        priority,
        _,
    ) = row
    return ClaimedJob(
        lease=Lease(id, token, me.pk),
        type=type_name,
        payload=json.loads(payload),
        attempt=attempt,
        max_attempts=max_attempts,
        correlation_id=correlation_id,
        priority=priority,
        submitter=submitter,
        workflow_id=workflow_id,
    )
