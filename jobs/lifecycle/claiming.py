"""pending → processing: give a worker up to n jobs in one short transaction."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce, Now

from jobs import conf, database, registry
from jobs.exceptions import UnknownWorker, WorkerDisabled, WorkerOffline
from jobs.lifecycle.bands import Band, candidates, find_bands
from jobs.lifecycle.leases import ClaimedJob, Lease
from jobs.lifecycle.rooms import Room, rooms_for
from jobs.models import Job, Status, Worker, WorkerStatus
from jobs.signals import Transition, announce

AGED_SHARE = 4
"""One job in four goes to those that have waited longer than PRIORITY_AGEING, oldest first."""
_SPARE = 64
"""How many candidates beyond those wanted are looked at, since other claimers may hold the first ones."""


def claim(worker: Worker, n: int = 1, *, types: Collection[str] | None = None) -> list[ClaimedJob]:
    """Up to n jobs for this worker, most urgent first. An empty list means: nothing it may run now."""
    names = eligible_types(worker, types)
    bands = find_bands(names) if n > 0 else []
    if not bands:
        return []
    return database.when_unlocked(lambda: _claim_from(bands, worker, n))


def eligible_types(worker: Worker, types: Collection[str] | None = None) -> list[str]:
    """The types this worker handles and has the capabilities for."""
    handled = worker.job_types if types is None else [name for name in worker.job_types if name in types]
    has = set(worker.capabilities)
    kinds = ((name, registry.find(name)) for name in handled)
    return [name for name, kind in kinds if kind is None or kind.requires <= has]


def _claim_from(bands: list[Band], worker: Worker, n: int) -> list[ClaimedJob]:
    with database.atomic():
        me = _lock_worker(worker)
        rooms = rooms_for({band.type for band in bands}, me)
        bands = [band for band in bands if rooms[band.type].slots > 0]
        if not bands:
            return []
        rows = _lock_jobs(bands, rooms, n)
        if not rows:
            return []
        _take(me, [row["id"] for row in rows])
        announce(
            [
                Transition(r["id"], r["type"], Status.PENDING, Status.PROCESSING, r["workflow_id"])
                for r in rows
            ]
        )
    return [_claimed(row, me) for row in rows]


def _lock_worker(worker: Worker) -> Worker:
    """The worker's own row, held so that disabling it and claiming come one after the other."""
    me = (
        Worker.objects.select_for_update(no_key=True)
        .only("id", "name", "status", "disabled", "draining")
        .filter(pk=worker.pk)
        .first()
    )
    if me is None:
        raise UnknownWorker(worker.pk)
    if me.disabled:
        raise WorkerDisabled(me.name)
    if me.status == WorkerStatus.OFFLINE:
        raise WorkerOffline(me.name)
    me.job_types, me.capabilities = worker.job_types, worker.capabilities
    return me


def _lock_jobs(bands: list[Band], rooms: dict[str, Room], n: int) -> list[dict[str, Any]]:
    """The jobs to take, locked; those that another claimer holds are skipped."""
    ageing = conf.current().priority_ageing
    aged: list[str] = []
    quota = aged_quota(n, random.random())
    overdue = [band for band in bands if band.waited > ageing.total_seconds()]
    if quota and len({band.priority for band in bands}) > 1 and overdue:
        aged = candidates(overdue, rooms, quota, min_age=ageing.total_seconds(), order="run_at, id")
    ids = aged + [id for id in candidates(bands, rooms, n + _SPARE) if id not in set(aged)]
    found = (
        Job.objects.pending()
        .filter(pk__among=frozenset(ids))
        .in_claim_order()
        .select_for_update(skip_locked=True)
        .values(
            "id",
            "type",
            "payload",
            "lease_token",
            "attempt_number",
            "max_attempts",
            "correlation_id",
            "priority",
            "submitter",
            "workflow_id",
        )
    )
    first: list[Any] = list(found.filter(pk__among=frozenset(aged))[:quota]) if aged else []
    rest: list[Any] = list(
        found.exclude(pk__among=frozenset(row["id"] for row in first))[: n - len(first)]
        if first
        else found[:n]
    )
    return _within_rooms(first + rest, rooms)


def aged_quota(n: int, chance: float) -> int:
    """How many of n claims go to jobs that have waited too long; the fraction is settled by chance."""
    share = n / AGED_SHARE
    return int(share) + (1 if chance < share - int(share) else 0)


def _within_rooms(rows: list[dict[str, Any]], rooms: dict[str, Room]) -> list[dict[str, Any]]:
    taken = Counter[str]()
    kept = []
    for row in rows:
        if taken[row["type"]] < rooms[row["type"]].slots:
            taken[row["type"]] += 1
            kept.append(row)
    return kept


def _take(me: Worker, ids: list[str]) -> None:
    Job.objects.filter(pk__among=frozenset(ids)).update(
        status=Status.PROCESSING,
        worker=me,
        lease_token=F("lease_token") + 1,
        attempt_number=F("attempt_number") + 1,
        claimed_at=Now(),
        claim_expires_at=database.now_plus(conf.current().claim_duration),
        started_at=Coalesce(F("started_at"), Now()),
        last_checkpoint=Now(),
        current_step="",
        progress_percent=0,
        processed_by_worker_id=me.pk,
        processed_by_worker_name=me.name,
    )
    condition, params = database.among("id", ids, vendor=database.connection().vendor)
    with database.connection().cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_attempt (job_id, token, number, worker_id, worker_name)"
            " SELECT id, lease_token, attempt_number, processed_by_worker_id, processed_by_worker_name"
            f" FROM jobs_job WHERE {condition}",
            params,
        )


def _claimed(row: dict[str, Any], me: Worker) -> ClaimedJob:
    return ClaimedJob(
        lease=Lease(row["id"], row["lease_token"] + 1, me.pk),
        type=row["type"],
        payload=row["payload"],
        attempt=row["attempt_number"] + 1,
        max_attempts=row["max_attempts"],
        correlation_id=row["correlation_id"],
        priority=row["priority"],
        submitter=row["submitter"],
        workflow_id=row["workflow_id"],
    )
