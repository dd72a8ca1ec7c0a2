"""Behind PgBouncer in transaction mode, where no session is one's own: the queue works, told that it is so."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from jobs import enqueue, enqueue_many
from jobs.models import Attempt, Job, Worker
from tests.conftest import RunManage, StartManage
from tests.support.needs import lacking
from tests.support.processes import wait_until
from tests.support.queue.actors import status_of
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker
from tests.support.servers.pgbouncer import MISSING, PROGRAM, PgBouncer

pytestmark = pytest.mark.django_db(transaction=True)

JOBS = 300
POOLED = {"JOBS_SESSION_FEATURES": "false"}


@pytest.fixture
def bouncer(database_url_of_test_database: str) -> Iterator[PgBouncer]:
    if connection.vendor != "postgresql":
        pytest.skip("PgBouncer is for PostgreSQL")
    if PROGRAM is None:
        lacking("PGBOUNCER", MISSING)
    bouncer = PgBouncer(database_url_of_test_database)
    yield bouncer
    bouncer.close()


@pytest.fixture
def through(bouncer: PgBouncer) -> dict[str, str]:
    return {**QUICK, **POOLED, "DATABASE_URL": bouncer.url}


def test_three_workers_share_three_sessions_and_run_every_job_once(
    through: dict[str, str], start_manage: StartManage, run_manage: RunManage
) -> None:
    workers = [start_manage("runworker", "--name", f"w{number}", env=through) for number in range(3)]
    for worker in workers:
        wait_for_worker(worker)
    enqueue_many("tests.noop", [{} for _ in range(JOBS)])
    run_manage("enqueue", "tests.noop", "--count", "50", env=through)
    wait_until(lambda: Job.objects.filter(status="completed").count() == JOBS + 50)
    assert Attempt.objects.count() == JOBS + 50
    assert Worker.objects.filter(lock_key__isnull=False).count() == 0, "no session lock was taken"
    for worker in workers:
        worker.terminate()
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0]
    for worker in workers:
        told = worker.read_output().lower()
        assert [word for word in ("prepared statement", "traceback", "error") if word in told] == [], told


def test_a_killed_worker_is_found_dead_without_its_session(
    through: dict[str, str], start_manage: StartManage, gate: Path, log: str
) -> None:
    first = start_manage("runworker", "--name", "first", env=through)
    wait_for_worker(first)
    job = enqueue("work.hold", log=log, gate=str(gate))
    wait_for_status(job, "processing")
    os.killpg(first.pid, signal.SIGKILL)
    start_manage("runworker", "--name", "second", env=through)
    wait_until(lambda: Attempt.objects.filter(job=job).count() == 2)
    gate.touch()
    assert wait_for_status(job, "completed").attempt_number == 2


def test_the_commands_that_read_much_work_too(through: dict[str, str], run_manage: RunManage) -> None:
    job = enqueue("tests.noop")
    assert run_manage("check_invariants", env=through).returncode == 0
    run_manage("runworker", "--until-empty", env=through)
    assert status_of(job) == "completed"
    run_manage("reconcile", env=through)
    run_manage("jobs", "status", env=through)
