"""A handler may do whatever it likes: only its own job suffers, never the innocent one beside it."""

from pathlib import Path

import pytest

from jobs import cancel, enqueue
from jobs.models import Job
from tests.conftest import StartManage
from tests.jobapp import hostile
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import outcomes_of
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)

ENDS = {
    "raise_base_exception": ("failed", "Outrage"),
    "raise_keyboard_interrupt": ("failed", "KeyboardInterrupt"),
    "exit_interpreter": ("failed", "SystemExit: 3"),
    "exit_from_coroutine": ("failed", "SystemExit: 4"),
    "run_out_of_memory": ("failed", "MemoryError"),
    "raise_unprintable": ("failed", "Unprintable"),
    "raise_nonsense_text": ("failed", "RuntimeError"),
    "return_nul": ("failed", "result"),
    "return_surrogate": ("failed", "result"),
    "return_infinity": ("failed", "result"),
    "return_object": ("failed", "result"),
    "report_nonsense": ("completed", ""),
    "close_connection": ("completed", ""),
    "leave_atomic_open": ("completed", ""),
    "leave_autocommit_off": ("completed", ""),
    "leave_aborted_transaction": ("failed", "nowhere"),
    "break_connection": ("completed", ""),
    "fork_and_return": ("completed", ""),
    "fork_and_raise": ("completed", ""),
    "fork_and_exit": ("completed", ""),
}


def test_whatever_a_handler_does_only_its_own_job_suffers(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    assert ENDS.keys() == hostile.IN_WORKER.keys()
    innocents = [enqueue("work.innocent", log=log, gate=str(gate)) for _ in range(2)]
    process = start_manage("runworker", "--concurrency=4", env=QUICK)
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    jobs = {how: enqueue("work.hostile", how=how) for how in ENDS}
    for how, (status, error) in ENDS.items():
        job = wait_for_status(jobs[how], "completed", "failed")
        assert (how, job.status) == (how, status), job.last_error
        assert error in job.last_error
        assert outcomes_of(job.pk) == [status]
        assert job.submitter == "", "an uncommitted transaction has been committed"
    gate.touch()
    for innocent in innocents:
        assert wait_for_status(innocent, "completed").result == "unharmed"
        assert outcomes_of(innocent.pk) == ["completed"]
    assert process.poll() is None
    assert wait_for_worker(process).pid == process.pid


def test_handlers_that_never_end_cost_their_jobs_and_no_slot(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    """One hangs in Python code, one in C code that nothing interrupts; both slots go on."""
    hung = [enqueue("work.too_slow", log=log, in_c=in_c, max_attempts=1) for in_c in (False, True)]
    process = start_manage("runworker", "--concurrency=2", env=QUICK)
    for job in hung:
        assert "JobTimeout" in wait_for_status(job, "failed").last_error
    innocents = [enqueue("work.innocent", log=log, gate=str(gate)) for _ in range(2)]
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    gate.touch()
    for innocent in innocents:
        assert wait_for_status(innocent, "completed").result == "unharmed"
    assert process.poll() is None


def test_an_async_handler_is_cancelled_where_it_awaits(start_manage: StartManage, log: str) -> None:
    job = enqueue("work.async_too_slow", log=log)
    start_manage("runworker", "--concurrency=1", env=QUICK)
    assert "JobTimeout" in wait_for_status(job, "failed").last_error
    wait_until(lambda: read_notes(log, "stopped"))


def test_cancelling_a_running_job_stops_its_handler(start_manage: StartManage, log: str, gate: Path) -> None:
    told = enqueue("work.progress", log=log, gate=str(gate))
    deaf = enqueue("work.hold", log=log, gate=str(gate))
    start_manage("runworker", "--concurrency=2", env=QUICK)
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    cancel([told.pk, deaf.pk], actor="somebody")
    wait_until(lambda: read_notes(log, "stopped"))
    after = [enqueue("work.record", log=log) for _ in range(2)]
    for job in after:
        wait_for_status(job, "completed")
    assert [outcomes_of(job.pk) for job in (told, deaf)] == [["cancelled"]] * 2
    assert set(Job.objects.filter(pk__in=[told.pk, deaf.pk]).values_list("status", flat=True)) == {
        "cancelled"
    }
    assert not read_notes(log, "finished")
