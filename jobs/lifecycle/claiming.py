"""pending → processing: give a worker up to n jobs in one short transaction.

A *band* is all pending jobs of one type and one priority. Bands are found by skipping through the claimable index,
so a claim costs the same whether a band holds ten jobs or a million, and a paused or saturated type costs nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, Q
from django.db.models.functions import Coalesce, Now

from jobs import conf, database, registry
from jobs.exceptions import UnknownWorker, WorkerDisabled, WorkerOffline
from jobs.lifecycle.leases import ClaimedJob, Lease
from jobs.lifecycle.recovering import expiry_counts, recover_expired
from jobs.models import Job, JobTypeState, Status, Worker, WorkerStatus
from jobs.signals import Transition, announce

AGED_SHARE = 4
"""One job in four goes to those that have waited longer than PRIORITY_AGEING, oldest first."""
_SPARE = 64
"""How many candidates beyond those wanted are looked at, since other claimers may hold the first ones."""


@dataclass(frozen=True, slots=True)
class Band:
    type: str
    priority: int
    waited: float
    """Seconds that its oldest job has been claimable."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a type may be claimed now."""

    slots: int
    min_age: float = 0.0


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


def find_bands(names: Collection[str]) -> list[Band]:
    """Which types and priorities have pending jobs: one index probe per band, most urgent first."""
    if not names:
        return []
    age = (
        "EXTRACT(EPOCH FROM statement_timestamp() - oldest)::float8"
        if database.is_postgres()
        else "(julianday('now') - julianday(oldest)) * 86400.0"
    )
    rows = database.fetch(
        f"""
        WITH RECURSIVE kind(type) AS (VALUES {", ".join(["(%s)"] * len(names))}),
        band(type, priority) AS (
            SELECT type, (SELECT min(priority) FROM jobs_job j WHERE j.status = 'pending' AND j.type = kind.type)
            FROM kind
            UNION ALL
            SELECT type, (SELECT min(priority) FROM jobs_job j WHERE j.status = 'pending' AND j.type = band.type
                                                               AND j.priority > band.priority)
            FROM band WHERE priority IS NOT NULL
        ),
        head AS (
            SELECT type, priority,
                   (SELECT min(run_at) FROM jobs_job j WHERE j.status = 'pending' AND j.type = band.type
                                                         AND j.priority = band.priority) AS oldest
            FROM band WHERE priority IS NOT NULL
        )
        SELECT type, priority, {age} FROM head WHERE oldest IS NOT NULL ORDER BY priority, oldest
        """,
        list(names),
    )
    return [Band(*row) for row in rows]


def _claim_from(bands: list[Band], worker: Worker, n: int) -> list[ClaimedJob]:
    with database.atomic():
        me = _lock_worker(worker)
        rooms = _rooms({band.type for band in bands}, me)
        bands = [band for band in bands if rooms[band.type].slots > 0]
        if not bands:
            return []
        rows = _lock_jobs(bands, rooms, n)
        if not rows:
            return []
        _take(me, [row["id"] for row in rows])
        announce([Transition(r["id"], r["type"], Status.PENDING, Status.PROCESSING, r["workflow_id"]) for r in rows])
    return [_claimed(row, me) for row in rows]


def _lock_worker(worker: Worker) -> Worker:
    """The worker's own row, held so that disabling it and claiming come one after the other."""
    me = Worker.objects.select_for_update(no_key=True).only("id", "name", "status", "disabled", "draining").filter(
        pk=worker.pk
    ).first()
    if me is None:
        raise UnknownWorker(worker.pk)
    if me.disabled:
        raise WorkerDisabled(me.name)
    if me.status == WorkerStatus.OFFLINE:
        raise WorkerOffline(me.name)
    me.job_types, me.capabilities = worker.job_types, worker.capabilities
    return me


def _rooms(types: set[str], me: Worker) -> dict[str, Room]:
    """How many jobs of each type may start. Limited types stay locked until the claim commits, so no limit overshoots."""
    states = {state.name: state for state in JobTypeState.objects.filter(name__in=types)}
    limits: dict[str, int] = {}
    rooms: dict[str, Room] = {}
    for name in types:
        state, kind = states.get(name), registry.find(name)
        if me.draining or (state and state.paused):
            rooms[name] = Room(0)
            continue
        limit = kind.concurrency if kind else None
        if state and state.concurrency is not None:
            limit = state.concurrency
        if limit is not None:
            limits[name] = limit
        rooms[name] = Room(2**31 - 1)
    if limits:
        for name, running in _locked_running(limits).items():
            rooms[name] = Room(max(0, limits[name] - running))
    return {name: _with_patience(name, room, me) for name, room in rooms.items()}


def _locked_running(limits: dict[str, int]) -> dict[str, int]:
    """Live leases per limited type, counted under the lock of the type's row."""
    JobTypeState.objects.bulk_create([JobTypeState(name=name) for name in sorted(limits)], ignore_conflicts=True)
    list(JobTypeState.objects.filter(name__in=limits).order_by("name").select_for_update().values_list("name"))
    leases = _count_leases(limits)
    if any(expired for _, expired in leases.values()) and expiry_counts():
        # They hold no place; so they end here for good, lest a late renewal bring one back beside its successor.
        recover_expired(limits)
        leases = _count_leases(limits)
    return {name: leases.get(name, (0, 0))[0] for name in limits}


def _count_leases(types: Iterable[str]) -> dict[str, tuple[int, int]]:
    """By type: how many leases there are, and how many of them have expired."""
    late = Count("pk", filter=Q(claim_expires_at__lte=Now()))
    leased = Job.objects.leased().filter(type__in=list(types)).order_by().values_list("type")
    return {name: (held, expired) for name, held, expired in leased.annotate(held=Count("pk"), late=late)}


def _with_patience(name: str, room: Room, me: Worker) -> Room:
    """A worker without the preferred capability leaves young jobs to idle workers that have it."""
    kind = registry.find(name)
    if kind is None or kind.prefers is None or kind.prefers in me.capabilities or room.slots == 0:
        return room
    settings = conf.current()
    rivals = (
        Worker.objects.enabled()
        .online()
        .heard_within(settings.heartbeat_interval * 2)
        .filter(draining=False, stopped_at__isnull=True, running_jobs__isnull=True)
        .exclude(pk=me.pk)
        .values_list("capabilities", "job_types")
    )
    wanted = kind.requires | {kind.prefers}
    if any(wanted <= set(capabilities) and name in handled for capabilities, handled in rivals):
        return Room(room.slots, settings.gpu_patience.total_seconds())
    return room


def _lock_jobs(bands: list[Band], rooms: dict[str, Room], n: int) -> list[dict[str, Any]]:
    """The jobs to take, locked; those that another claimer holds are skipped."""
    ageing = conf.current().priority_ageing
    aged: list[str] = []
    quota = aged_quota(n, random.random())
    overdue = [band for band in bands if band.waited > ageing.total_seconds()]
    if quota and len({band.priority for band in bands}) > 1 and overdue:
        aged = _candidates(overdue, rooms, quota, min_age=ageing.total_seconds(), order="run_at, id")
    ids = aged + [id for id in _candidates(bands, rooms, n + _SPARE) if id not in set(aged)]
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
    first = list(found.filter(pk__among=frozenset(aged))[:quota]) if aged else []
    rest = list(found.exclude(pk__among=frozenset(row["id"] for row in first))[: n - len(first)] if first else found[:n])
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


def _candidates(
    bands: Iterable[Band],
    rooms: dict[str, Room],
    limit: int,
    *,
    min_age: float = 0.0,
    order: str = "priority, run_at, id",
) -> list[str]:
    """The first ids over all bands, merged: each band contributes no more than its type has room for."""
    parts, params = [], []
    for band in bands:
        room = rooms[band.type]
        age = max(min_age, room.min_age)
        parts.append(
            "SELECT * FROM (SELECT id, priority, run_at FROM jobs_job"
            " WHERE status = 'pending' AND type = %s AND priority = %s"
            + (f" AND run_at <= {_moment_ago()}" if age else "")
            + " ORDER BY run_at, id LIMIT %s) AS band"
        )
        params += [band.type, band.priority, *([age] if age else []), min(room.slots, limit)]
    rows = database.fetch(f"SELECT id FROM ({' UNION ALL '.join(parts)}) AS bands ORDER BY {order} LIMIT {limit}", params)
    return [row[0] for row in rows]


def _moment_ago() -> str:
    if database.is_postgres():
        return "statement_timestamp() - %s * interval '1 second'"
    return "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-' || %s || ' seconds')"


def _take(me: Worker, ids: list[str]) -> None:
    duration: timedelta = conf.current().claim_duration
    Job.objects.filter(pk__among=frozenset(ids)).update(
        status=Status.PROCESSING,
        worker=me,
        lease_token=F("lease_token") + 1,
        attempt_number=F("attempt_number") + 1,
        claimed_at=Now(),
        claim_expires_at=database.now_plus(duration),
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
