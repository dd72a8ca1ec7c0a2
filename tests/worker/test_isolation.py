"""isolate=True: the handler has a process of its own, which may die, hang or eat without harm to anybody."""

import os
import signal
from pathlib import Path

import pytest

from jobs import cancel, enqueue
from jobs.models import Attempt, Job
from tests.conftest import StartManage
from tests.jobapp import hostile
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import outcomes_of, status_of
from tests.support.queue.workers import QUICK, exists, wait_for_status

pytestmark = pytest.mark.django_db(transaction=True)

ENDS = {
    "die_at_once": ("failed", "exit code 7"),
    "crash": ("failed", "SIGSEGV"),
    "eat_memory": ("failed", "MemoryError"),
    "leave_grandchild": ("completed", ""),
    "close_every_file": ("failed", "exit code"),
    "print_a_lot": ("completed", ""),
    "raise_base_exception": ("failed", "Outrage"),
    "exit_interpreter": ("failed", "SystemExit"),
    "fork_and_return": ("completed", ""),
    "fork_and_raise": ("completed", ""),
}


def pid_of_child(log: str) -> int:
    """The process in which the handler runs."""
    return int(wait_until(lambda: read_notes(log, "started"), timeout=60)[-1]["pid"])


def pid_of_grandchild(log: str) -> int:
    return int(
        wait_until(lambda: Path(f"{log}.grandchild").exists() and Path(f"{log}.grandchild").read_text())
    )


def test_whatever_an_isolated_handler_does_to_its_process_only_its_own_job_suffers(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    assert ENDS.keys() == hostile.IN_CHILD.keys()
    innocent = enqueue("work.innocent", log=log, gate=str(gate))
    jobs = {how: enqueue("work.isolated_hostile", how=how) for how in ENDS}
    start_manage("runworker", "--concurrency=4", env=QUICK)
    for how, (status, error) in ENDS.items():
        job = wait_for_status(jobs[how], "completed", "failed", timeout=60)
        assert (how, job.status) == (how, status), job.last_error
        assert error in job.last_error
    gate.touch()
    assert wait_for_status(innocent, "completed").result == "unharmed"
    assert outcomes_of(innocent.pk) == ["completed"]


def test_progress_children_and_results_come_through_isolation(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    job = enqueue("work.isolated", log=log, gate=str(gate), correlation_id="order 7")
    worker = start_manage("runworker", "--until-empty", env=QUICK)
    wait_until(lambda: Job.objects.filter(pk=job.pk, progress_percent=40, current_step="half way"))
    gate.touch()
    assert worker.wait(timeout=60) == 0
    done = Job.objects.get(pk=job.pk)
    assert done.status == "completed"
    assert done.result is not None
    child = Job.objects.get(pk=done.result["child"])
    assert (child.status, child.correlation_id, child.parent_id) == ("completed", "order 7", job.pk)
    assert done.result["pid"] == pid_of_child(log) != worker.pid


def test_an_isolated_handler_sees_the_drain(start_manage: StartManage, log: str) -> None:
    in_order = enqueue("work.isolated_obey", log=log)
    given_back = enqueue("work.isolated_obey", log=log, give_back=True)
    worker = start_manage("runworker", env=QUICK)
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=60) == 0
    assert status_of(in_order) == "completed"
    assert outcomes_of(given_back.pk) == ["released"]


@pytest.mark.parametrize("how", ["cancel", "timeout", "drain", "kill -9"])
def test_a_handler_deaf_to_everything_is_killed_with_all_its_processes(
    start_manage: StartManage, log: str, how: str
) -> None:
    kind = "work.isolated_too_slow" if how == "timeout" else "work.isolated_block"
    job = enqueue(kind, log=log)
    worker = start_manage("runworker", env=QUICK | {"JOBS_DRAIN_TIMEOUT": "100ms"})
    child, grandchild = pid_of_child(log), pid_of_grandchild(log)
    if how == "cancel":
        cancel(job.pk)
    elif how == "drain":
        worker.send_signal(signal.SIGTERM)
    elif how == "kill -9":
        os.kill(worker.pid, signal.SIGKILL)
    assert wait_until(lambda: not exists(child))
    assert wait_until(lambda: not exists(grandchild))
    if how == "timeout":
        assert wait_until(lambda: Attempt.objects.filter(job=job, outcome="failed", error_type="JobTimeout"))
    else:
        ends = {"cancel": "cancelled", "drain": "pending", "kill -9": "processing"}
        assert wait_for_status(job, ends[how]).status == ends[how]
