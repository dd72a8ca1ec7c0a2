"""The workers as a fleet: who is registered, who is alive, who may claim. Proof of death, never suspicion."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from typing import Any, TypeVar

from django.db import IntegrityError
from django.db.models.functions import Now

from jobs import conf, database, processes, wakeup
from jobs.exceptions import UnknownWorker, WorkerNameTaken
from jobs.lifecycle.recovering import recover_lost
from jobs.models import Job, JobTypeState, Worker, WorkerKind, WorkerStatus
from jobs.signals import announce_workers, raise_alarm

F = TypeVar("F", bound=Callable[[Collection[str]], Iterable[str]])

log = logging.getLogger("jobs.worker")

_NAME_PATIENCE = 15.0
"""Seconds that a restarted worker waits for its own name, while PostgreSQL finds out that its predecessor is dead."""


def current_version() -> str:
    try:
        return version("sprocket-queue")
    except PackageNotFoundError:
        return "source"


_finders: list[Callable[[Collection[str]], Iterable[str]]] = []


def finds_capabilities(finder: F) -> F:
    """Register the decorated function: it is called when a worker registers in its process, with the names of the job
    types that it handles, and returns capabilities that it has beside those it was started with.

    Put it where it is imported at start-up: in job_types.py, or from AppConfig.ready().
    """
    _finders.append(finder)
    return finder


def capabilities_of(job_types: Collection[str], given: Collection[str]) -> set[str]:
    """What this process can do: what it was started with, and what is found here."""
    return {*given, *_found(job_types)}


def _found(job_types: Collection[str]) -> Iterator[str]:
    for finder in _finders:
        try:
            yield from finder(job_types)
        except Exception:  # it may have other work to do
            log.exception("%s.%s cannot find out what this worker can do", finder.__module__, finder.__name__)


def register(
    *,
    name: str | None,
    job_types: Collection[str],
    capabilities: Collection[str],
    concurrency: int,
    lock_key: int | None = None,
) -> Worker:
    """This process as a worker. A name whose former process is proven gone is taken over, with its history.

    A process that registers again brings the key of the session lock that it holds already.
    """
    here = processes.this_host()
    deadline = time.monotonic() + (_NAME_PATIENCE if database.is_postgres() else 0)
    while True:
        for candidate in [name] if name else _default_names(here.name):
            worker = database.when_unlocked(lambda c=candidate: _take_name(c, lock_key))  # type: ignore[misc]
            if worker is not None:
                break
        else:
            if time.monotonic() < deadline and not _lives_here(name):
                time.sleep(0.5)
                continue
            raise WorkerNameTaken(name or here.name)
        break
    worker.job_types = sorted(job_types)
    worker.capabilities = sorted(capabilities_of(job_types, capabilities))
    worker.concurrency = concurrency
    worker.save(update_fields=["job_types", "capabilities", "concurrency"])
    JobTypeState.objects.bulk_create([JobTypeState(name=t) for t in worker.job_types], ignore_conflicts=True)
    raise_alarm("worker_startup", worker=worker.name)
    announce_workers([worker.pk])
    return worker


def _default_names(host: str) -> Iterator[str]:
    yield host
    for number in count(2):
        yield f"{host}-{number}"


def _lives_here(name: str | None) -> bool:
    """The worker of this name is a living process of this host: there is nothing to wait for."""
    worker = Worker.objects.filter(name=name, host=str(processes.this_host())).first()
    return worker is not None and proof_of_death(worker) is None


def _take_name(name: str, lock_key: int | None = None) -> Worker | None:
    if lock_key is None and database.is_postgres() and conf.current().session_features:
        lock_key = random.getrandbits(31)
    identity = {
        "host": str(processes.this_host()),
        "pid": os.getpid(),
        "process_start": processes.start_mark(os.getpid()) or "",
        "lock_key": lock_key,
        "version": current_version(),
        "status": WorkerStatus.ACTIVE,
    }
    with database.atomic():
        worker = Worker.objects.select_for_update().filter(name=name).first()
        if worker is None:
            try:
                with database.atomic():
                    worker = Worker.objects.create(name=name, **identity)
            except IntegrityError:
                return None
        else:
            proof = proof_of_death(worker)
            if proof is None or worker.kind == WorkerKind.REMOTE:  # whose name goes with its keys
                return None
            recover_lost(worker.pk, proof)
        Worker.objects.filter(pk=worker.pk).update(
            **identity,
            registered_at=Now(),
            last_heartbeat=None,
            stopped_at=None,
            draining=False,
            lock_missing_since=None,
        )
    worker.refresh_from_db()
    return worker


def proof_of_death(worker: Worker) -> str | None:
    """Why this worker's process certainly no longer runs; None when that is not certain."""
    if seen := worker.death_seen_here():
        return seen
    if worker.kind == WorkerKind.REMOTE or worker.is_of_this_host:
        return None
    if worker.lock_key is not None and database.is_postgres() and _lock_is_free_for_long(worker):
        return f"the session lock of worker {worker.name} is free"
    return None


def _lock_is_free_for_long(worker: Worker) -> bool:
    """The lock has been free for the grace that a reconnect needs, and the database has not just been started."""
    settings = conf.current()
    (held, long_gone, just_started), *_ = database.fetch(
        """
        SELECT EXISTS (SELECT 1 FROM pg_locks l
                       WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objid = w.lock_key AND l.objsubid = 2
                         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())),
               coalesce(w.lock_missing_since < statement_timestamp() - %s, false),
               pg_postmaster_start_time() > statement_timestamp() - %s
        FROM jobs_worker w WHERE w.id = %s
        """,
        [database.SESSION_LOCK_CLASS, settings.session_lock_grace, settings.recovery_grace, worker.pk],
    )
    mine = Worker.objects.filter(pk=worker.pk)
    if held:
        mine.filter(lock_missing_since__isnull=False).update(lock_missing_since=None)
    else:
        mine.filter(lock_missing_since__isnull=True).update(lock_missing_since=Now())
    return not held and long_gone and not just_started


def heartbeat(worker: Worker, *, busy: bool) -> str:
    """Alive. Brings a worker back from offline, never from disabled.

    Returns what people want of it: "disabled", "draining" or "" (go on).
    """
    mine = Worker.objects.filter(pk=worker.pk, pid=worker.pid, process_start=worker.process_start)
    status = WorkerStatus.BUSY if busy else WorkerStatus.IDLE
    current = mine.only("disabled", "draining", "status").first()
    if current is None or not mine.update(status=status, last_heartbeat=Now(), stopped_at=None):
        raise UnknownWorker(worker.pk)
    if current.status == WorkerStatus.OFFLINE:
        log_return(worker)
    announce_workers([worker.pk])
    return current.order


def log_return(worker: Worker) -> None:
    log.info(
        "worker %s was offline and is back", worker.name, extra={"code": "worker_back", "worker": worker.name}
    )


def lock_regained(worker: Worker) -> None:
    Worker.objects.filter(pk=worker.pk).update(lock_missing_since=None)


def say_goodbye(worker: Worker) -> None:
    """The process ends by itself: whatever it still holds may be recovered at once."""
    mine = Worker.objects.filter(
        pk=worker.pk, pid=worker.pid, process_start=worker.process_start, stopped_at__isnull=True
    )
    if mine.update(status=WorkerStatus.OFFLINE, stopped_at=Now(), draining=False):
        raise_alarm("worker_shutdown", worker=worker.name)
        announce_workers([worker.pk])


def roll_call(*fields: str) -> tuple[list[Worker], list[Worker]]:
    """Who of the workers that are recorded as online is alive, as of now, and who is gone, with these fields besides
    those that tell it."""
    told_by = ("name", "kind", "status", "disabled", "draining", "host", "pid", "process_start", "stopped_at")
    workers = list(Worker.objects.online().judged().only(*told_by, *fields))
    alive = [worker for worker in workers if worker.is_online]
    return alive, [worker for worker in workers if worker not in alive]


def living(*fields: str) -> list[Worker]:
    """The one answer to whether a worker is running, whoever asks. A record may be older than its worker's death where
    nobody has swept since."""
    return roll_call(*fields)[0]


def mark_dead_offline(worker: Worker, proof: str) -> bool:
    """A worker that is proven dead need not be waited for. False: that was known."""
    if not Worker.objects.online().filter(pk=worker.pk).update(status=WorkerStatus.OFFLINE):
        return False
    _tell_offline(worker.name, proof)
    announce_workers([worker.pk])
    return True


def mark_silent_offline() -> list[str]:
    """Workers not heard of for too long. The condition is part of the update, so a racing heartbeat wins."""
    silent = Worker.objects.online().silent()
    gone = {
        pk: name
        for pk, name in silent.values_list("pk", "name")
        if silent.filter(pk=pk).update(status=WorkerStatus.OFFLINE)
    }
    for name in gone.values():
        _tell_offline(name, "it is silent")
    announce_workers(gone)
    return list(gone.values())


def _tell_offline(name: str, reason: str) -> None:
    raise_alarm("worker_offline", worker=name, reason=reason, left=len(living()))


def disable(worker_ids: Collection[str]) -> list[str]:
    """These claim nothing until somebody enables them again. Returns those that changed."""
    return _flag(Worker.objects.filter(pk__in=worker_ids, disabled=False), disabled=True)


def enable(worker_ids: Collection[str]) -> list[str]:
    changed = _flag(Worker.objects.filter(pk__in=worker_ids, disabled=True), disabled=False)
    if changed:
        wakeup.on_commit()
    return changed


def drain(worker_ids: Collection[str]) -> list[str]:
    """Ask these workers to finish what they run and then stop."""
    running = Worker.objects.filter(pk__in=worker_ids, stopped_at__isnull=True, draining=False)
    return _flag(running, draining=True)


def forget(worker_ids: Collection[str]) -> list[str]:
    """Delete the records of these workers, with their keys; what they did stays in the attempts, with their names.

    Only of workers that are offline and hold no job. Returns those that were deleted.
    """
    mark_silent_offline()  # a record may be older than its worker's death
    with database.atomic():
        offline = Worker.objects.filter(pk__in=worker_ids, status=WorkerStatus.OFFLINE).order_by("pk")
        ids = set(offline.select_for_update().values_list("pk", flat=True))
        # Lock, then check: a claim takes the lock of its worker first.
        ids -= set(Job.objects.leased().filter(worker__in=ids).values_list("worker_id", flat=True))
        Worker.objects.filter(pk__in=ids).delete()
    return sorted(ids)


def _flag(workers: Any, **change: bool) -> list[str]:
    with database.atomic():
        ids = list(workers.select_for_update().values_list("pk", flat=True))
        Worker.objects.filter(pk__in=ids).update(**change)
        announce_workers(ids)
    return ids
