"""Workers that die, jobs that kill them, and who takes the jobs back."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs import enqueue, enqueue_many
from jobs.models import Event, Job, Worker
from jobs.processes import this_host
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import outcomes_of, status_of
from tests.support.queue.workers import QUICK, freeze, wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)


def test_twenty_workers_run_each_of_two_thousand_jobs_once(start_manage: StartManage, log: str) -> None:
    enqueue_many("work.record", [{"log": log}] * 2000)
    fleet = [
        start_manage(
            "runworker", "--processes=5", "--concurrency=4", "--until-empty", f"--name=crew-{number}"
        )
        for number in range(4)
    ]
    assert [process.wait(timeout=120) for process in fleet] == [0, 0, 0, 0]
    runs = [line["job"] for line in read_notes(log)]
    assert len(runs) == len(set(runs)) == 2000
    assert Job.objects.completed().filter(attempt_number=1).count() == 2000
    assert Worker.objects.count() == 20


@pytest.mark.parametrize("kind", ["work.fail", "work.too_slow", "work.kill_worker"])
def test_a_job_with_three_attempts_runs_exactly_three_times(
    start_manage: StartManage, log: str, kind: str
) -> None:
    """Whether each attempt ends by an exception, by its timeout, or by kill -9 of the worker that runs it."""
    job = enqueue(kind, log=log, max_attempts=3)
    start_manage("runworker", "--processes=2", "--concurrency=2", env=QUICK)
    failed = wait_for_status(job, "failed", timeout=60)
    assert [line["attempt"] for line in read_notes(log)] == [1, 2, 3]
    assert failed.attempt_number == 3
    how = "lost" if kind == "work.kill_worker" else "failed"
    assert outcomes_of(job.pk) == [how] * 3
    innocent = enqueue("work.record", log=log)
    wait_for_status(innocent, "completed", timeout=60)
    assert status_of(job) == "failed"


def test_a_job_of_a_killed_worker_runs_again_on_another(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    job = enqueue("work.hold", log=log, gate=str(gate))
    victim = start_manage("runworker", env=QUICK)
    wait_until(lambda: read_notes(log, "started"))
    start_manage("runworker", env=QUICK)
    victim.kill()
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    gate.touch()
    wait_for_status(job, "completed")
    assert outcomes_of(job.pk) == ["lost", "completed"]
    assert Event.objects.get(job=job).kind == "recovered"
    first, second = read_notes(log, "started")
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert first["pid"] == victim.pid != second["pid"]
    assert [worker.pid for worker in Worker.objects.online()] == [second["pid"]], "nobody counts on the dead"


@pytest.mark.skipif(connection.vendor != "postgresql", reason="session locks exist on PostgreSQL only")
def test_the_session_lock_proves_the_death_of_a_worker_on_another_host(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    job = enqueue("work.hold", log=log, gate=str(gate))
    victim = start_manage("runworker", env=QUICK)
    worker = wait_for_worker(victim)
    wait_until(lambda: read_notes(log, "started"))
    Worker.objects.filter(pk=worker.pk).update(host="elsewhere|x|y")
    witness = start_manage("runworker", env=QUICK)
    wait_for_worker(witness)
    wait_until(lambda: Worker.objects.get(pk=worker.pk).status == "busy")
    assert status_of(job) == "processing", "its lock is held, so it lives"
    victim.kill()
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    gate.touch()
    assert outcomes_of(wait_for_status(job, "completed").pk) == ["lost", "completed"]
    assert worker.name in Event.objects.get(job=job).detail, "not by the end of its lease"


def test_a_worker_that_is_alive_but_silent_keeps_its_job_until_the_lease_expires(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    job = enqueue("work.hold", log=log, gate=str(gate))
    silent = start_manage("runworker", env=QUICK)
    wait_until(lambda: read_notes(log, "started"))
    freeze(silent, in_transaction=False)
    other = start_manage("runworker", env=QUICK | {"JOBS_OFFLINE_THRESHOLD": "500ms"})
    mute = Worker.objects.get(pid=silent.pid)
    wait_for_worker(other)
    wait_until(lambda: Worker.objects.get(pk=mute.pk).status == "offline")
    _let_the_sweep_pass(other.pid)
    assert status_of(job) == "processing"
    assert outcomes_of(job.pk) == ["running"], "offline is a suspicion, no proof"

    Job.objects.filter(pk=job.pk).update(claim_expires_at=Now() - timedelta(seconds=1))
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    gate.touch()
    wait_for_status(job, "completed")
    other.terminate()  # it would call a slow one silent again
    other.wait()
    os.kill(silent.pid, signal.SIGCONT)  # its handler ends, or is stopped first: what it says is too late
    wait_until(lambda: Worker.objects.get(pk=mute.pk).status == "idle")
    done = wait_for_status(job, "completed")
    assert outcomes_of(job.pk) == ["lost", "completed"]
    assert Worker.objects.get(pk=done.processed_by_worker_id).pid == other.pid


@pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite cannot take a lock from a frozen process"
)
def test_a_worker_that_freezes_in_a_transaction_does_not_hold_up_the_others(
    start_manage: StartManage,
) -> None:
    frozen = start_manage(
        "runworker", env=QUICK | {"JOBS_SWEEP_INTERVAL": "1ms", "JOBS_TICK_INTERVAL": "1ms"}
    )
    mute = wait_for_worker(frozen)
    freeze(frozen, in_transaction=True)
    start_manage("runworker", env=QUICK | {"JOBS_OFFLINE_THRESHOLD": "500ms"})
    wait_until(lambda: Worker.objects.get(pk=mute.pk).status == "offline")
    os.kill(frozen.pid, signal.SIGCONT)
    assert wait_until(lambda: Worker.objects.get(pk=mute.pk).status == "idle")


def _let_the_sweep_pass(pid: int) -> None:
    """Two more heartbeats of the other worker, so that it has looked for the dead in between."""
    worker = Worker.objects.filter(pid=pid)
    for _ in range(2):
        earlier = worker.filter(last_heartbeat=worker.get().last_heartbeat)
        wait_until(lambda earlier=earlier: not earlier.exists())  # type: ignore[misc]


@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="a PostgreSQL server outlives the workers' machines"
)
def test_a_reboot_of_the_machine_is_a_proof_of_death_on_sqlite(start_manage: StartManage, log: str) -> None:
    here = this_host()
    before_the_boot = Worker.objects.create(
        name="before", host=f"{here.name}|another boot|{here.namespace}", pid=os.getpid(), process_start="1"
    )
    job = _held_by(before_the_boot, log)
    start_manage("runworker", env=QUICK)
    wait_for_status(job, "completed")
    assert outcomes_of(job.pk) == ["lost", "completed"]


def test_another_process_with_the_same_pid_is_not_the_worker(start_manage: StartManage, log: str) -> None:
    reused = Worker.objects.create(
        name="reused", host=str(this_host()), pid=os.getpid(), process_start="long before this process"
    )
    job = _held_by(reused, log)
    start_manage("runworker", env=QUICK)
    wait_for_status(job, "completed")
    assert outcomes_of(job.pk) == ["lost", "completed"]


def _held_by(worker: Worker, log: str) -> Job:
    from jobs.lifecycle import claim

    worker.job_types = ["work.record"]
    job = enqueue("work.record", log=log)
    assert [claimed.lease.job_id for claimed in claim(worker)] == [job.pk]
    return job


def test_a_limit_of_three_holds_across_killed_workers(
    start_manage: StartManage, log: str, tmp_path: Path
) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    jobs = enqueue_many("work.limited", [{"log": log, "folder": str(folder)}] * 40)
    start_manage("runworker", "--processes=3", "--concurrency=4", env=QUICK)
    for some in (7, 14, 21):
        wait_until(lambda some=some: len(read_notes(log)) >= some)  # type: ignore[misc]
        os.kill(read_notes(log)[-1]["pid"], signal.SIGKILL)
    wait_until(lambda: Job.objects.completed().count() == len(jobs), timeout=60)
    assert max(line["running"] for line in read_notes(log)) <= 3
    assert Event.objects.filter(kind="recovered").exists()
