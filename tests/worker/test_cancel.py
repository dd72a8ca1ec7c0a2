"""A cancel asks first: the handler has CANCEL_GRACE to clean up, then it is interrupted."""

from pathlib import Path

import pytest

from jobs import cancel, enqueue
from jobs.models import Attempt, Job
from tests.conftest import RunManage, StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import outcomes_of
from tests.support.queue.workers import QUICK, wait_for_status

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_cancelled_handler_may_clean_up_in_a_thread_a_coroutine_or_a_process(
    start_manage: StartManage, run_manage: RunManage, log: str, gate: Path
) -> None:
    kinds = ("work.clean_up", "work.async_clean_up", "work.isolated_clean_up")
    jobs = [enqueue(kind, log=log, gate=str(gate)) for kind in kinds]
    start_manage("runworker", "--concurrency=3", env=QUICK | {"JOBS_CANCEL_GRACE": "1h"})
    wait_until(lambda: len(read_notes(log, "started")) == 3)
    for job in jobs:
        run_manage("jobs", "cancel", job.pk)
    wait_until(lambda: len(read_notes(log, "asked")) == 3)
    assert {note["reason"] for note in read_notes(log, "asked")} == {"cancelled"}
    assert set(Job.objects.values_list("status", "claimed_at")) == {("cancelled", None)}
    gate.touch()
    wait_until(lambda: len(read_notes(log, "cleaned")) == 3)
    for after in [enqueue("work.record", log=log) for _ in range(3)]:
        wait_for_status(after, "completed")
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.result, outcomes_of(job.pk)) == ("cancelled", None, ["cancelled"])


def test_a_handler_that_does_not_stop_is_interrupted_when_its_grace_is_over(
    start_manage: StartManage, log: str
) -> None:
    raised = {
        "work.deaf": "JobCancelled",
        "work.async_deaf": "CancelledError",
        "work.isolated_deaf": "JobCancelled",
    }
    jobs = {enqueue(kind, log=log).pk: by for kind, by in raised.items()}
    worker = start_manage("runworker", "--concurrency=3", env=QUICK)
    wait_until(lambda: len(read_notes(log, "started")) == 3)
    cancel(list(jobs), reason="nobody wants it")
    wait_until(lambda: len(read_notes(log, "interrupted")) == 3)
    assert {note["job"]: note["by"] for note in read_notes(log, "interrupted")} == jobs
    for after in [enqueue("work.record", log=log) for _ in range(3)]:
        wait_for_status(after, "completed")
    assert worker.poll() is None
    ends = Attempt.objects.filter(job__in=jobs).values_list("outcome", "error_type", "error")
    assert set(ends) == {("cancelled", "JobCancelled", "nobody wants it")}
