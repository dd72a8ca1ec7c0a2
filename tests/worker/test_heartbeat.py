"""Who counts as alive, who may claim: heartbeats, the offline check, and the disabled flag."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import database, enqueue, fleet, recovery
from jobs.lifecycle import claim
from jobs.models import Job, Worker, WorkerStatus
from jobs.processes import this_host
from tests.conftest import RunManage, StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import AS_JSON, has_logged, wait_until
from tests.support.queue.actors import Background, events_of, new_worker, outcomes_of, status_of
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = timedelta(minutes=6)


@pytest.fixture(autouse=True)
def _silence_counts(settings: Settings) -> None:
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": "1ms"}  # the test's server has just been started


def silent_worker() -> Worker:
    """Not heard of for longer than the offline threshold of 5 minutes."""
    return new_worker(last_heartbeat=database.now_minus(LONG_AGO), registered_at=database.now_minus(LONG_AGO))


def state_of(worker: Worker) -> str:
    return Worker.objects.get(pk=worker.pk).state


def test_a_heartbeat_that_comes_before_the_offline_check_ends_wins() -> None:
    worker = silent_worker()
    with database.atomic():
        fleet.heartbeat(worker, busy=False)
        check = Background(fleet.mark_silent_offline)
        check.wait_until_blocked()
    assert check.result() == []
    assert state_of(worker) == WorkerStatus.IDLE


def test_a_heartbeat_that_comes_during_the_offline_check_wins_too() -> None:
    worker = silent_worker()
    with database.atomic():
        assert fleet.mark_silent_offline() == [worker.name]
        heartbeat = Background(lambda: fleet.heartbeat(worker, busy=True))
        heartbeat.wait_until_blocked()
    heartbeat.result()
    assert state_of(worker) == WorkerStatus.BUSY


def test_a_worker_without_any_heartbeat_is_judged_by_its_registration() -> None:
    new = new_worker(last_heartbeat=None)
    old = new_worker(last_heartbeat=None, registered_at=database.now_minus(LONG_AGO))
    assert recovery.mark_offline() == [old.name]
    assert (state_of(new), state_of(old)) == ("idle", "offline")


def test_no_heartbeat_or_sweep_enables_a_disabled_worker() -> None:
    worker = silent_worker()
    fleet.disable([worker.pk])
    recovery.sweep()
    assert Worker.objects.get(pk=worker.pk).status == WorkerStatus.OFFLINE
    assert fleet.heartbeat(worker, busy=False) == "disabled"
    recovery.sweep()
    assert state_of(worker) == "disabled"
    fleet.say_goodbye(worker)
    assert state_of(worker) == "disabled"


def test_a_disabled_worker_runs_nothing_new_even_after_a_restart_until_it_is_enabled(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    running = enqueue("work.hold", log=log, gate=str(gate))
    process = start_manage("runworker", "--name=suspect", env=QUICK | AS_JSON)
    wait_until(lambda: read_notes(log, "started"))
    worker = wait_for_worker(process)
    fleet.disable([worker.pk])
    pending = enqueue("work.record", log=log)
    gate.touch()
    wait_for_status(running, "completed")
    wait_until(lambda: has_logged(process, "worker_disabled"))
    process.kill()
    process.wait()

    restarted = start_manage("runworker", "--name=suspect", env=QUICK | AS_JSON)
    assert wait_for_worker(restarted).pk == worker.pk
    wait_until(lambda: has_logged(restarted, "worker_disabled"))
    assert (state_of(worker), status_of(pending)) == ("disabled", "pending")
    assert outcomes_of(pending.pk) == []

    fleet.enable([worker.pk])
    wait_for_status(pending, "completed")


def test_a_worker_whose_record_was_deleted_registers_again_and_goes_on(
    start_manage: StartManage, log: str
) -> None:
    process = start_manage("runworker", "--name=phoenix", env=QUICK)
    former = wait_for_worker(process)
    Worker.objects.filter(pk=former.pk).delete()
    job = enqueue("work.record", log=log)
    wait_for_status(job, "completed")
    again = Worker.objects.get(name="phoenix")
    assert (again.pid, again.pk != former.pk) == (process.pid, True)
    if database.is_postgres():
        wait_until(lambda: _session_lock_is_held(again.pk))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 0
    assert Worker.objects.get(name="phoenix").stopped_at is not None


def _session_lock_is_held(worker_id: str) -> bool:
    held = (
        "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = lock_key)"
    )
    return bool(database.fetch(f"SELECT ({held}) FROM jobs_worker WHERE id = %s", [worker_id])[0][0])


def test_a_worker_that_was_marked_offline_by_mistake_comes_back_and_claims(
    start_manage: StartManage, log: str
) -> None:
    process = start_manage("runworker", env=QUICK | {"JOBS_HEARTBEAT_INTERVAL": "1m"})
    worker = wait_for_worker(process)
    Worker.objects.filter(pk=worker.pk).update(status=WorkerStatus.OFFLINE)
    job = enqueue("work.record", log=log)
    wait_for_status(job, "completed")
    assert job.attempts.get().worker_id == worker.pk


def test_a_name_in_use_is_refused_and_a_dead_workers_name_is_taken_over(run_manage: RunManage) -> None:
    me = fleet.register(name="taken", job_types=["tests.noop"], capabilities=[], concurrency=1)
    refused = run_manage("runworker", "--name=taken", "--drain", check=False)
    assert refused.returncode == 1
    assert "'taken'" in refused.stderr
    assert "--name" in refused.stderr
    Worker.objects.filter(pk=me.pk).update(process_start="an earlier process")
    run_manage("runworker", "--name=taken", "--drain")
    assert Worker.objects.get().pk == me.pk


@pytest.mark.skipif(connection.vendor != "postgresql", reason="nothing comes between a process and its file")
def test_a_job_whose_claim_was_never_answered_is_given_back(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    """The claim was committed, but the connection broke before the worker heard of it."""
    running = enqueue("work.hold", log=log, gate=str(gate))
    process = start_manage("runworker", "--concurrency=1", env=QUICK)
    worker = wait_for_worker(process)
    wait_until(lambda: read_notes(log, "started"))
    unheard = enqueue("work.hold", log=log, gate=str(gate))
    (claimed,) = claim(worker)
    assert claimed.lease.job_id == unheard.pk
    database.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    gate.touch()
    wait_for_status(unheard, "completed")
    assert outcomes_of(unheard.pk) == ["released", "completed"]
    assert events_of(unheard.pk) == ["released"]
    assert wait_for_status(running, "completed").attempt_number == 1


def test_a_restarted_worker_of_the_same_name_takes_back_what_its_predecessor_ran(
    start_manage: StartManage, log: str
) -> None:
    predecessor = new_worker(
        name="same", host=str(this_host()), pid=os.getpid(), process_start="gone", types=["work.record"]
    )
    job = enqueue("work.record", log=log)
    claim(predecessor)
    Job.objects.filter(pk=job.pk).update(claim_expires_at=Now() + timedelta(hours=1))
    start_manage("runworker", "--name=same", "--until-empty").wait(timeout=120)
    assert outcomes_of(job.pk) == ["lost", "completed"]
    assert Job.objects.get(pk=job.pk).processed_by_worker_id == predecessor.pk
