"""The workers: who is there, when they were last heard of, what they do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Case, Q, Value, When

from jobs import conf, database
from jobs.dashboard.addresses import Addresses
from jobs.dashboard.work import RunningJob
from jobs.models import Worker, WorkerStatus

MOST = 2_000
SHOWN = 24
SHOWN_JOBS = 3
REMEMBERED = timedelta(days=1)
"""A worker that has said goodbye is shown for so long."""


@dataclass(frozen=True)
class CrewMember:
    id: str
    name: str
    state: str
    heard: datetime | None
    is_late: bool
    """Two heartbeats are missing."""
    running: int
    slots: int
    does: Sequence[RunningJob]
    more: int
    order: str
    address: str


@dataclass(frozen=True)
class Crew:
    members: Sequence[CrewMember]
    online: int
    busy: int
    hidden: int
    """Online, but not among the members shown."""


def read_workers() -> list[Worker]:
    """Those that are here or were lately; the living first, as far as the records know."""
    present = Q(stopped_at__isnull=True) | Q(stopped_at__gt=database.now_minus(REMEMBERED))
    rank = Case(When(status=WorkerStatus.OFFLINE, then=Value(1)), default=Value(0))
    workers = Worker.objects.judged().filter(present).order_by(rank, "name")
    return list(workers.defer("job_types", "capabilities", "metadata")[:MOST])


def read_crew(
    workers: Sequence[Worker], now: datetime, running: Sequence[RunningJob], addresses: Addresses
) -> Crew:
    jobs: defaultdict[str, list[RunningJob]] = defaultdict(list)
    for job in running:
        jobs[job.worker_id].append(job)
    late = now - 2 * conf.current().heartbeat_interval
    online = [worker for worker in workers if worker.is_online]
    members = [
        CrewMember(
            id=worker.pk,
            name=worker.name,
            state=worker.state,
            heard=worker.last_heartbeat,
            is_late=worker in online and (worker.last_heartbeat or worker.registered_at) < late,
            running=len(jobs[worker.pk]),
            slots=worker.concurrency,
            does=jobs[worker.pk][:SHOWN_JOBS],
            more=max(0, len(jobs[worker.pk]) - SHOWN_JOBS),
            order=worker.order if worker.order != worker.state else "",
            address=addresses.worker(worker.pk),
        )
        for worker in workers[:SHOWN]
    ]
    busy = sum(1 for worker in online if jobs[worker.pk])
    return Crew(members, len(online), busy, max(0, len(online) - SHOWN))
