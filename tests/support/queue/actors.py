"""Who acts in the tests of the lifecycle: workers that claim, and threads with connections of their own."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from datetime import timedelta
from itertools import count
from typing import Any, Generic, TypeVar

from django.db import connection, connections
from django.db.models.functions import Now

from jobs import database, lifecycle, processes, registry
from jobs.lifecycle import ClaimedJob
from jobs.models import Attempt, Event, Job, Worker, WorkerStatus
from tests.support.processes import wait_until

T = TypeVar("T")

_numbers = count(1)


def new_worker(
    *, types: Collection[str] | None = None, capabilities: Collection[str] = (), **fields: Any
) -> Worker:
    """A registered worker that was heard of just now; it handles every type unless told otherwise."""
    worker: Worker = Worker.objects.create(
        **{
            "name": f"worker-{next(_numbers)}",
            "status": WorkerStatus.IDLE,
            "job_types": [kind.name for kind in registry.all_types()] if types is None else list(types),
            "capabilities": list(capabilities),
            "last_heartbeat": Now(),
            **fields,
        }
    )
    return worker


def a_dead_process(**fields: Any) -> Worker:
    """A worker of this host whose process has ended without a word."""
    process = subprocess.Popen(["true"])
    mark = processes.start_mark(process.pid) or ""
    process.wait()
    return new_worker(host=str(processes.this_host()), pid=process.pid, process_start=mark, **fields)


def claim_one(worker: Worker | None = None) -> ClaimedJob:
    """The one job that this worker (or a new one) gets."""
    (claimed,) = lifecycle.claim(worker or new_worker(), 1)
    return claimed


def claimed_ids(worker: Worker, n: int = 1) -> list[str]:
    return [claimed.lease.job_id for claimed in lifecycle.claim(worker, n)]


def expire(job_id: str) -> None:
    """Let the job's lease run out, by the database's clock."""
    changed = Job.objects.filter(pk=job_id, status="processing").update(
        claim_expires_at=database.now_minus(timedelta(seconds=1))
    )
    assert changed == 1


def age(job_ids: Collection[str], seconds: float) -> None:
    """As if these jobs had been claimable for so long."""
    Job.objects.filter(pk__in=job_ids).update(run_at=database.now_minus(timedelta(seconds=seconds)))


def stored(job: Job | str) -> Any:
    """The job as it is in the database now."""
    return Job.objects.get(pk=job if isinstance(job, str) else job.pk)


def status_of(job: Job | str) -> str:
    return str(stored(job).status)


def outcomes_of(job_id: str) -> list[str]:
    """How each attempt of the job ended, in order."""
    return list(Attempt.objects.filter(job_id=job_id).order_by("token").values_list("outcome", flat=True))


def events_of(job_id: str) -> list[str]:
    return list(Event.objects.filter(job_id=job_id).order_by("id").values_list("kind", flat=True))


class Background(Generic[T]):
    """An action in a thread with a connection of its own."""

    def __init__(self, action: Callable[[], T], *, start_with: threading.Barrier | None = None) -> None:
        self._action = action
        self._barrier = start_with
        self._future: Future[T] = Future()
        self._statement = ""
        self._backend_pid: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            connection.ensure_connection()
            if connection.vendor == "postgresql":
                self._backend_pid = connection.connection.info.backend_pid
            if self._barrier:
                self._barrier.wait(timeout=120)
            with connection.execute_wrapper(self._watch):
                result = self._action()
            connections.close_all()
            self._future.set_result(result)
        except BaseException as error:
            connections.close_all()
            self._future.set_exception(error)

    def _watch(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        self._statement = sql
        try:
            return execute(sql, params, many, context)
        finally:
            self._statement = ""

    def wait_until_blocked(self) -> None:
        """Until the action waits for a lock that another connection holds."""
        wait_until(lambda: self._future.done() or self._is_blocked(), interval=0.005)
        assert not self._future.done(), f"it did not wait for the lock: {self._future}"

    def _is_blocked(self) -> bool:
        if connection.vendor == "sqlite":
            return self._statement.startswith(("BEGIN", "UPDATE"))
        return bool(
            database.fetch("SELECT coalesce(cardinality(pg_blocking_pids(%s)), 0)", [self._backend_pid])[0][0]
        )

    def result(self) -> T:
        return self._future.result(timeout=60)

    def outcome(self) -> T | BaseException:
        """What it returned, or what it raised."""
        error = self._future.exception(timeout=60)
        return self._future.result() if error is None else error


def race(actions: Sequence[Callable[[], T]]) -> list[T]:
    """Run the actions at the same moment, each with its own connection; what each returned."""
    return [runner.result() for runner in _started_together(actions)]


def race_outcomes(actions: Sequence[Callable[[], T]]) -> list[T | BaseException]:
    """The same, where some are expected to raise: what each returned or raised."""
    return [runner.outcome() for runner in _started_together(actions)]


def _started_together(actions: Sequence[Callable[[], T]]) -> list[Background[T]]:
    barrier = threading.Barrier(len(actions))
    return [Background(action, start_with=barrier) for action in actions]
