"""What the tests of real workers share: settings that make waiting short, and questions about their jobs."""

import os
import signal
import sqlite3
from typing import Any

from django.db import connection

from jobs import database, processes
from jobs.models import Job, Worker
from tests.support.processes import ManageProcess, wait_until
from tests.support.queue.actors import status_of

QUICK = {
    "JOBS_TICK_INTERVAL": "100ms",
    "JOBS_HEARTBEAT_INTERVAL": "200ms",
    "JOBS_SWEEP_INTERVAL": "300ms",
    "JOBS_BACKOFF_BASE": "20ms",
    "JOBS_BACKOFF_CAP": "40ms",
    "JOBS_SESSION_LOCK_GRACE": "300ms",
    "JOBS_FROZEN_TRANSACTION_TIMEOUT": "1s",
    "JOBS_RECOVERY_GRACE": "1ms",
    "JOBS_CANCEL_GRACE": "300ms",
}
"""The environment of a worker for which little time means what much time means in production."""


def wait_for_worker(process: ManageProcess, *, count: int = 1) -> Worker:
    """The (first) worker of a `runworker` process, once it is registered and has sent a heartbeat."""

    def ready() -> Any:
        assert process.poll() is None, f"the worker has ended:\n{process.read_output()}"
        alive = Worker.objects.filter(last_heartbeat__isnull=False, stopped_at__isnull=True)
        mine = [worker for worker in alive if _group(worker.pid) == process.pid]
        return mine if len(mine) >= count else []

    worker: Worker = wait_until(ready)[0]
    return worker


def _group(pid: int | None) -> int | None:
    try:
        return os.getpgid(pid or 0)
    except ProcessLookupError:
        return None


def exists(pid: int) -> bool:
    return processes.start_mark(pid) is not None


def wait_for_status(job: Job, *statuses: str, timeout: float = 120) -> Job:
    wait_until(lambda: status_of(job) in statuses, timeout=timeout)
    found: Job = Job.objects.get(pk=job.pk)
    return found


def freeze(process: ManageProcess, *, in_transaction: bool) -> None:
    """Stop a worker (the only one) with SIGSTOP, between its transactions or in the middle of one."""

    def frozen() -> bool:
        os.kill(process.pid, signal.SIGSTOP)
        if is_in_transaction() == in_transaction:
            return True
        os.kill(process.pid, signal.SIGCONT)
        return False

    wait_until(frozen, interval=0.001)


def is_in_transaction() -> bool:
    """Whether another process has a transaction open."""
    if connection.vendor == "postgresql":
        others = "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        wait_until(lambda: ("active",) not in database.fetch(others), interval=0.001)
        return ("idle in transaction",) in database.fetch(others)
    with sqlite3.connect(connection.settings_dict["NAME"], timeout=0, isolation_level=None) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
            file.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
    return False
