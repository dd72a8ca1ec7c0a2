"""A worker that is told to stop lets its jobs finish, or gives them back uncounted."""

import os
import signal
from pathlib import Path

import pytest

from jobs import enqueue, fleet
from jobs.models import Job, Worker
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import AS_JSON, ManageProcess, count_logged, has_logged, wait_until
from tests.support.queue.actors import events_of, outcomes_of, status_of
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)

PATIENT = QUICK | AS_JSON | {"JOBS_DRAIN_TIMEOUT": "1h"}
HASTY = QUICK | AS_JSON | {"JOBS_DRAIN_TIMEOUT": "200ms"}


def started(log: str, count: int = 1) -> None:
    wait_until(lambda: len(read_notes(log, "started")) == count)


def is_stopping(worker: ManageProcess) -> bool:
    return has_logged(worker, "draining")


def was_released(job: Job) -> bool:
    """Back in the queue as if it had never been claimed, with the trace of it."""
    now = Job.objects.get(pk=job.pk)
    assert outcomes_of(job.pk) == ["released"]
    assert events_of(job.pk) == ["released"]
    return bool(now.status == "pending" and now.attempt_number == 0 and now.last_error == "")


def test_a_draining_worker_finishes_its_job_and_claims_no_other(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    running = enqueue("work.hold", log=log, gate=str(gate))
    worker = start_manage("runworker", env=PATIENT)
    started(log)
    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: is_stopping(worker))
    too_late = enqueue("work.record", log=log)
    gate.touch()
    assert worker.wait(timeout=120) == 0
    assert status_of(running) == "completed"
    assert read_notes(log, "finished")[0]["should_stop"] is True
    assert status_of(too_late) == "pending"
    assert outcomes_of(too_late.pk) == []
    assert Worker.objects.get().stopped_at is not None


def test_handlers_see_that_the_worker_drains_and_may_give_their_job_back(
    start_manage: StartManage, log: str
) -> None:
    in_order = enqueue("work.obey", log=log)
    given_back = enqueue("work.obey", log=log, give_back=True)
    worker = start_manage("runworker", env=PATIENT)
    started(log, 2)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(timeout=120) == 0
    assert [line["reason"] for line in read_notes(log, "stopping")] == ["draining"] * 2
    finished = Job.objects.get(pk=in_order.pk)
    assert (finished.status, finished.result) == ("completed", "finished in order")
    assert was_released(given_back)


def test_a_job_that_outlasts_the_drain_timeout_goes_back_uncounted_and_runs_again(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    job = enqueue("work.hold", log=log, gate=str(gate), max_attempts=1)
    worker = start_manage("runworker", env=HASTY)
    started(log)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=120) == 0
    assert was_released(job)
    gate.touch()
    successor = start_manage("runworker", "--until-empty")
    assert successor.wait(timeout=120) == 0
    assert status_of(job) == "completed"
    assert outcomes_of(job.pk) == ["released", "completed"]
    assert Job.objects.get(pk=job.pk).attempt_number == 1


def test_a_second_signal_ends_the_drain_at_once(start_manage: StartManage, log: str, gate: Path) -> None:
    job = enqueue("work.hold", log=log, gate=str(gate))
    worker = start_manage("runworker", env=PATIENT)
    started(log)
    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: is_stopping(worker))
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=120) == 0
    assert was_released(job)


def test_a_supervisor_passes_the_drain_on_to_its_workers(start_manage: StartManage, log: str) -> None:
    jobs = [enqueue("work.obey", log=log) for _ in range(2)]
    supervisor = start_manage("runworker", "--processes=2", "--concurrency=1", env=PATIENT)
    started(log, 2)
    assert len({line["pid"] for line in read_notes(log)}) == 2
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(timeout=120) == 0
    assert [status_of(job) for job in jobs] == ["completed"] * 2


def test_a_signal_to_the_whole_process_group_counts_once(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    """Ctrl-C in a terminal reaches supervisor and workers; so does the SIGTERM of systemd."""
    job = enqueue("work.hold", log=log, gate=str(gate))
    supervisor = start_manage("runworker", "--processes=2", env=PATIENT)
    wait_for_worker(supervisor, count=2)
    started(log)
    os.killpg(supervisor.pid, signal.SIGINT)
    wait_until(lambda: count_logged(supervisor, "draining") == 2)
    wait_until(lambda: count_logged(supervisor, "stopped") == 1)  # the idle one; the other waits for its job
    assert (status_of(job), outcomes_of(job.pk)) == ("processing", ["running"])
    os.killpg(supervisor.pid, signal.SIGINT)
    assert supervisor.wait(timeout=120) == 0
    assert was_released(job), "the second time means: at once"


@pytest.mark.parametrize("disabled", [False, True])
def test_an_administrator_drains_a_worker(start_manage: StartManage, log: str, disabled: bool) -> None:
    job = enqueue("work.obey", log=log)
    process = start_manage("runworker", env=PATIENT)
    worker = wait_for_worker(process)
    started(log)
    if disabled:
        assert fleet.disable([worker.pk]) == [worker.pk]
    assert fleet.drain([worker.pk]) == [worker.pk]
    assert process.wait(timeout=120) == 0
    assert wait_for_status(job, "completed").attempt_number == 1
    worker.refresh_from_db()
    assert worker.stopped_at is not None
    assert (worker.disabled, worker.draining) == (disabled, False)
