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
from jobs.exceptions import UnknownWorker, WorkerNameTaken, WorkerRevoked
from jobs.lifecycle import Lease
from jobs.lifecycle.recovering import recover_lost
from jobs.models import Job, JobTypeState, Status, Worker, WorkerKey, WorkerKind, WorkerStatus
from jobs.signals import announce_workers, raise_alarm
from jobs.ulid import new_ulid
from jobs.versions import is_outdated

STARTING, BUSY, STOPPED = "starting", "busy", "stopped"
REGISTRATION = "registration"
"""Who issued, or revoked, a key by registering."""
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


def random_name() -> str:
    """For a worker that registers without a name."""
    return f"remote-{new_ulid()[-8:].lower()}"


def register(name: str, announcement: Announcement) -> tuple[Worker, WorkerKey, str]:
    """A remote worker with a new key, which nobody can read again. Raises WorkerNameTaken.

    The name of a remote worker that is offline is taken over, with its history: its former keys are revoked, and what
    it still held goes back to the queue, since nobody can report about it any more.
    """
    told = announcement.with_all_types()
    if Worker.objects.online().filter(name=name).exists():
        fleet.mark_silent_offline()  # it may be silent for long, and nobody has looked

    def write() -> tuple[Worker, WorkerKey, str]:
        with database.atomic():
            worker = _create(name) or _take_over(name)
            changes = {
                **told.changes(worker),
                "status": WorkerStatus.ACTIVE,
                "registered_at": Now(),
                "last_heartbeat": Now(),
                "stopped_at": None,
                "draining": False,
            }
            Worker.objects.filter(pk=worker.pk).update(**changes)
            worker.refresh_from_db()
            _know(worker.job_types)
            record, key = worker_keys.issue(worker, actor=REGISTRATION)
            announce_workers([worker.pk])
            live.hint_on_commit()
        return worker, record, key

    return database.when_unlocked(write)


def _create(name: str) -> Worker | None:
    """None: the name belongs to a worker already, perhaps since this very moment."""
    try:
        with database.atomic():
            worker: Worker = Worker.objects.create(name=name, kind=WorkerKind.REMOTE)
    except IntegrityError:
        return None
    return worker


def _take_over(name: str) -> Worker:
    """The offline remote worker of this name, its row locked: of two registrations at once, one finds it online."""
    worker: Worker | None = Worker.objects.select_for_update().filter(name=name).first()
    if worker is None:
        raise WorkerNameTaken(name)  # and was forgotten in this very moment
    if worker.kind != WorkerKind.REMOTE or worker.status != WorkerStatus.OFFLINE:
        raise WorkerNameTaken(name)
    worker_keys.revoke_all(worker, actor=REGISTRATION)
    recover_lost(worker.pk, f"worker {worker.name} has registered anew")
    return worker


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
    leases = lifecycle.live_leases(worker.pk)
    return Orders(worker, order, leases, _to_stop(worker, order, leases, running))


def _say(worker: Worker, status: str) -> str:
    """Its status, on the record and on this object; returns what people want of it."""
    if status == STOPPED:
        fleet.say_goodbye(worker)
        live.hint_on_commit()
        worker.status = WorkerStatus.OFFLINE
        return worker.order

    def write() -> None:
        with database.atomic():
            worker.disabled, worker.draining, before = _lock(worker)
            # Lock, then check: its last key may have been revoked since this request has shown it.
            if not WorkerKey.objects.usable().filter(worker=worker).exists():
                raise WorkerRevoked
            worker.status = WorkerStatus.BUSY if status == BUSY or _holds_a_job(worker) else _SAID[status]
            Worker.objects.filter(pk=worker.pk).update(
                status=worker.status, last_heartbeat=Now(), stopped_at=None
            )
            announce_workers([worker.pk])
        if before == WorkerStatus.OFFLINE and status != STARTING:
            fleet.log_return(worker)

    database.when_unlocked(write)
    worker.stopped_at = None
    return worker.order


_SAID = {STARTING: WorkerStatus.IDLE, "idle": WorkerStatus.IDLE, "active": WorkerStatus.ACTIVE}
"""What is recorded of a worker that says so and holds no job."""


def _lock(worker: Worker) -> tuple[bool, bool, str]:
    """Lock the worker's row. Returns whether it is disabled, whether it drains, and its status."""
    lock = "FOR NO KEY UPDATE" if database.is_postgres() else ""
    rows = database.fetch(
        f"SELECT disabled, draining, status FROM jobs_worker WHERE id = %s {lock}", [worker.pk]
    )
    if not rows:
        raise UnknownWorker(worker.pk)
    return bool(rows[0][0]), bool(rows[0][1]), rows[0][2]


def _holds_a_job(worker: Worker) -> bool:
    return bool(Job.objects.leased().filter(worker_id=worker.pk).exists())


def mark_busy(worker: Worker) -> None:
    """It has claimed a job: in that transaction, which has locked the worker's row."""
    Worker.objects.filter(pk=worker.pk).update(status=WorkerStatus.BUSY)
    announce_workers([worker.pk])


def mark_idle(worker_id: str) -> None:
    """After a lease of this worker has ended: it is not busy any more if that was its last one."""
    holds_nothing = (
        "id = %s AND status = 'busy' AND NOT EXISTS"
        " (SELECT 1 FROM jobs_job WHERE worker_id = jobs_worker.id AND status = 'processing')"
    )
    lock = "FOR NO KEY UPDATE" if database.is_postgres() else ""

    def write() -> None:
        with database.atomic(), database.connection().cursor() as cursor:
            # Lock, then check once more: a claim of the same worker may have been under way.
            if database.fetch(f"SELECT 1 FROM jobs_worker WHERE {holds_nothing} {lock}", [worker_id]):
                cursor.execute(f"UPDATE jobs_worker SET status = 'idle' WHERE {holds_nothing}", [worker_id])
                announce_workers([worker_id])
                live.hint_on_commit()

    database.when_unlocked(write)


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
    ended = ran.filter(processed_by_worker_id=worker.pk, status__in=(Status.COMPLETED, Status.FAILED))
    reasons = dict.fromkeys(ended.values_list("id", flat=True), "finished")
    cancelled = lifecycle.cancelled_among(gone)
    return [
        Stop(lease, "cancelled" if lease in cancelled else reasons.get(lease.job_id, "lost"))
        for lease in gone
    ]
