"""Workers that come over HTTP: the same fleet, the same leases, told by request instead of by their own connection.

Such a worker has neither a process nor a session that anybody here could look at. So it counts as gone when it says so
(goodbye, or a new start under the same key), and otherwise its leases run out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.db.models.functions import Now

from jobs import conf, database, fleet, lifecycle, live, registry, worker_keys
from jobs.exceptions import UnknownWorker, WorkerNameTaken
from jobs.lifecycle import Lease
from jobs.lifecycle.recovering import recover_lost
from jobs.models import Job, JobTypeState, Status, Worker, WorkerKey, WorkerKind, WorkerStatus
from jobs.signals import raise_alarm
from jobs.versions import is_outdated

STARTING, BUSY, STOPPED = "starting", "busy", "stopped"
OUTDATED = "outdated"


@dataclass(frozen=True)
class Announcement:
    """What a worker tells about itself; None: nothing new."""

    types: Collection[str] | None = None
    capabilities: Collection[str] | None = None
    concurrency: int | None = None
    version: str | None = None
    metadata: dict[str, Any] | None = None

    def with_all_types(self) -> Announcement:
        """Who begins and names no types takes whatever is offered."""
        return replace(self, types=offered()) if self.types is None else self

    def changes(self, worker: Worker) -> dict[str, Any]:
        told = {
            "job_types": None if self.types is None else offered(self.types),
            "capabilities": None if self.capabilities is None else sorted(set(self.capabilities)),
            "concurrency": self.concurrency,
            "version": self.version,
            "metadata": self.metadata,
        }
        return {
            name: value
            for name, value in told.items()
            if value is not None and value != getattr(worker, name)
        }


def offered(names: Collection[str] | None = None) -> list[str]:
    """Those of these types that the site lets remote workers run; without names: all of those."""
    return [
        kind.name for kind in registry.all_types() if kind.remote and (names is None or kind.name in names)
    ]


def register(name: str, announcement: Announcement) -> tuple[Worker, WorkerKey, str]:
    """A new remote worker with its first key, which nobody can read again."""
    told = announcement.with_all_types()

    def write() -> tuple[Worker, WorkerKey, str]:
        with database.atomic():
            worker = Worker(name=name, kind=WorkerKind.REMOTE, status=WorkerStatus.ACTIVE)
            for field, value in told.changes(worker).items():
                setattr(worker, field, value)
            try:
                with database.atomic():
                    worker.save(force_insert=True)
            except IntegrityError:
                raise WorkerNameTaken(name) from None
            _know(worker.job_types)
            record, key = worker_keys.issue(worker, actor="registration")
        return worker, record, key

    return database.when_unlocked(write)


def _know(types: Collection[str]) -> None:
    JobTypeState.objects.bulk_create([JobTypeState(name=name) for name in types], ignore_conflicts=True)


# -- heartbeats --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stop:
    """A job that the worker must stop now, and why: cancelled, lost, finished, disabled or outdated."""

    lease: Lease
    reason: str


@dataclass(frozen=True)
class Orders:
    worker: Worker
    order: str
    """ "draining" (finish and stop), "disabled" or "outdated" (claim nothing), "" (go on)."""
    leases: dict[Lease, datetime]
    """What the worker holds, and until when."""
    stop: list[Stop]


def heartbeat(
    worker: Worker, *, status: str, announcement: Announcement, running: Sequence[Lease] = ()
) -> Orders:
    """Alive, with these jobs: their leases are renewed. Returns what people and the queue want of the worker."""
    if status == STARTING:
        announcement = announcement.with_all_types()
    changes = announcement.changes(worker)
    if status == STARTING or changes:
        database.when_unlocked(lambda: _announce(worker, changes, afresh=status == STARTING))
    order = _say(worker, status)
    if is_outdated(worker.version, conf.current().min_worker_version):
        order = OUTDATED
    if running:
        lifecycle.renew(worker.pk, [lease.job_id for lease in running])
    leases = _held(worker)
    return Orders(worker, order, leases, _to_stop(worker, order, leases, running))


def _say(worker: Worker, status: str) -> str:
    """Its status, on the record and on this object; returns what people want of it."""
    if status == STOPPED:
        fleet.say_goodbye(worker)
        live.hint_on_commit()
        worker.status = WorkerStatus.OFFLINE
        return worker.order
    order = fleet.heartbeat(worker, busy=status == BUSY)
    worker.status = WorkerStatus.BUSY if status == BUSY else WorkerStatus.IDLE
    worker.stopped_at = None
    worker.disabled = worker.disabled or order == "disabled"
    return order


def _announce(worker: Worker, changes: dict[str, Any], *, afresh: bool) -> None:
    with database.atomic():
        if not Worker.objects.select_for_update().filter(pk=worker.pk).exists():
            raise UnknownWorker(worker.pk)
        if afresh:
            recover_lost(worker.pk, f"worker {worker.name} has started anew")
            changes = {**changes, "registered_at": Now(), "stopped_at": None, "draining": False}
            raise_alarm("worker_startup", worker=worker.name)
        Worker.objects.filter(pk=worker.pk).update(**changes)
        _know(changes.get("job_types", []))
    worker.refresh_from_db()


def _held(worker: Worker) -> dict[Lease, datetime]:
    rows: Any = Job.objects.leased().filter(worker_id=worker.pk)
    return {
        Lease(job_id, token, worker.pk): expires_at
        for job_id, token, expires_at in rows.values_list("id", "lease_token", "claim_expires_at")
    }


def _to_stop(
    worker: Worker, order: str, leases: dict[Lease, datetime], running: Sequence[Lease]
) -> list[Stop]:
    if order in ("disabled", OUTDATED):
        return [Stop(lease, order if lease in leases else "lost") for lease in running]
    gone = [lease for lease in running if lease not in leases]
    if not gone:
        return []
    # Only of jobs that this worker was the last to run: the fate of others is none of its business.
    ran = Job.objects.filter(pk__among=frozenset(lease.job_id for lease in gone))
    fates = dict(ran.filter(processed_by_worker_id=worker.pk).values_list("id", "status"))
    reasons: dict[str, str] = {
        Status.CANCELLED: "cancelled",
        Status.COMPLETED: "finished",
        Status.FAILED: "finished",
    }
    return [Stop(lease, reasons.get(fates.get(lease.job_id, ""), "lost")) for lease in gone]
