"""A fresh database connection per job; none leaks."""

import pytest
from django.db import connection

from jobs import database, enqueue, enqueue_many
from jobs.models import Job
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("kind", ["work.use_database", "work.async"])
def test_every_job_gets_a_connection_of_its_own_and_none_stays_open(
    start_manage: StartManage, log: str, kind: str
) -> None:
    start_manage("runworker", "--concurrency=4", env=QUICK)
    enqueue_many(kind, [{"log": log}] * 200)
    wait_until(lambda: Job.objects.completed().count() == 200)
    marks = [line["connection"] for line in read_notes(log)]
    if connection.vendor == "postgresql":
        assert len(set(marks)) == 200
        # The test itself and the suite (tests/support/beside.py); the worker's claims, pulse, reporter and ear.
        wait_until(lambda: len(open_sessions()) <= 6)
    else:
        assert marks == [""] * 200, "a job has found a connection that was used before"


def open_sessions() -> list[int]:
    rows = database.fetch("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
    return [pid for (pid,) in rows]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a file has no sessions to be broken")
def test_an_async_handler_works_again_after_its_connection_was_broken(
    start_manage: StartManage, log: str
) -> None:
    process = start_manage("runworker", env=QUICK)
    wait_for_worker(process)
    assert wait_for_status(enqueue("work.async", log=log), "completed").result == "found 1"
    database.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    again = wait_for_status(enqueue("work.async", log=log, max_attempts=1), "completed", "failed")
    assert (again.status, again.result) == ("completed", "found 1")
