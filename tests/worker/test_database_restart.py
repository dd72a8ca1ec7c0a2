"""The database goes away under a worker, and comes back: nothing is lost and the worker survives."""

import signal
from pathlib import Path

import pytest
from django.db import connections

from jobs import enqueue, enqueue_many
from jobs.models import Job
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import AS_JSON, has_logged, wait_until
from tests.support.queue.actors import outcomes_of
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker
from tests.support.servers.postgres_server import PostgresServer

pytestmark = pytest.mark.django_db(transaction=True)


def start_again(server: PostgresServer) -> None:
    connections.close_all()  # the test's own connection broke, too
    server.start()


@pytest.mark.parametrize("immediate", [False, True], ids=["fast stop", "immediate stop"])
def test_a_busy_worker_survives_a_restart_of_the_database_and_loses_nothing(
    start_manage: StartManage, postgres_server: PostgresServer, log: str, immediate: bool
) -> None:
    ids = enqueue_many("work.record", [{"log": log}] * 500)
    process = start_manage("runworker", "--concurrency=2", env=QUICK)
    wait_until(lambda: len(read_notes(log)) > 20, interval=0.005)
    postgres_server.stop(immediate=immediate)
    start_again(postgres_server)
    wait_until(lambda: Job.objects.completed().count() == len(ids))
    assert sorted(line["job"] for line in read_notes(log)) == sorted(ids), "each has run once"
    assert not Job.objects.exclude(attempt_number=1).exists()
    wait_for_status(enqueue("work.record", log=log), "completed")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 0
    assert "Traceback" not in process.read_output()


def test_a_running_job_goes_on_and_is_completed_once_the_database_is_back(
    start_manage: StartManage, postgres_server: PostgresServer, log: str, gate: Path
) -> None:
    job = enqueue("work.hold", log=log, gate=str(gate))
    process = start_manage("runworker", env=QUICK | AS_JSON)
    wait_until(lambda: read_notes(log, "started"))
    postgres_server.stop()
    gate.touch()
    wait_until(lambda: read_notes(log, "finished"))
    wait_until(lambda: has_logged(process, "report_failed"))
    start_again(postgres_server)
    done = wait_for_status(job, "completed")
    assert (done.attempt_number, done.result) == (1, "held")
    assert outcomes_of(job.pk) == ["completed"]


def test_a_worker_out_of_touch_stops_the_jobs_whose_lease_it_cannot_trust(
    start_manage: StartManage, postgres_server: PostgresServer, log: str, gate: Path
) -> None:
    job = enqueue("work.progress", log=log, gate=str(gate))
    process = start_manage("runworker", env=QUICK | {"JOBS_CLAIM_DURATION": "1s"})
    wait_for_worker(process)
    wait_until(lambda: read_notes(log, "started"))
    postgres_server.stop()
    wait_until(lambda: read_notes(log, "stopped"))
    start_again(postgres_server)
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    gate.touch()
    wait_for_status(job, "completed")
    assert outcomes_of(job.pk) == ["lost", "completed"]


def test_a_worker_started_while_the_database_is_down_waits_for_it(
    start_manage: StartManage, postgres_server: PostgresServer, log: str
) -> None:
    job = enqueue("work.record", log=log)
    postgres_server.stop()
    patient = start_manage("runworker", env=QUICK | AS_JSON)
    stopped = start_manage("runworker", env=QUICK | AS_JSON)
    for process in (patient, stopped):
        wait_until(lambda process=process: has_logged(process, "unreachable"))  # type: ignore[misc]
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(timeout=120) == 0, "it may be stopped while it waits"
    start_again(postgres_server)
    wait_for_status(job, "completed")
    assert patient.poll() is None
