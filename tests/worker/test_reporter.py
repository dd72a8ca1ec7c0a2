"""How outcomes reach the database: together, and each one whatever happens to the others."""

import gc
from collections.abc import Iterator, Sequence

import pytest

from jobs import enqueue, lifecycle
from jobs.lifecycle import ClaimedJob
from jobs.models import Job, Worker
from jobs.signals import Transition, jobs_changed
from jobs.worker.at_database import AtDatabase
from jobs.worker.handling import Outcome
from jobs.worker.reporter import Reporter
from tests.support.processes import wait_until
from tests.support.queue.actors import new_worker, outcomes_of, status_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def reporter() -> Iterator[Reporter]:
    transport = AtDatabase(name=None, types=[], capabilities=[], concurrency=1)
    reporter = Reporter(transport, is_busy=lambda: False, on_lost=lambda lease: None)
    yield reporter
    if reporter._thread.is_alive():
        assert reporter.finish(timeout=120)
    gc.collect()  # the connection of its thread


class Refusing:
    """A receiver of jobs_changed that refuses what becomes of one job."""

    def __init__(self, job: Job, *statuses: str) -> None:
        self._job, self._statuses = job, statuses

    def __call__(self, *, transitions: Sequence[Transition], **kwargs: object) -> None:
        if any(change.job_id == self._job.pk and change.after in self._statuses for change in transitions):
            raise RuntimeError("the site refuses this change")


@pytest.fixture
def jobs() -> list[Job]:
    return [enqueue("tests.noop") for _ in range(3)]


def claimed_by(worker: Worker) -> list[ClaimedJob]:
    return lifecycle.claim(worker, 3)


def test_a_completion_that_the_site_refuses_fails_and_the_others_are_written(
    reporter: Reporter, jobs: list[Job]
) -> None:
    refusing = Refusing(jobs[1], "completed")
    jobs_changed.connect(refusing)
    try:
        for claimed in claimed_by(new_worker()):
            reporter.outcome(Outcome(claimed.lease, result="done"))
        reporter.start()
        wait_until(lambda: [status_of(job) for job in jobs] == ["completed", "waiting", "completed"])
    finally:
        jobs_changed.disconnect(refusing)
    assert outcomes_of(jobs[1].pk) == ["failed"]
    assert "the site refuses this change" in Job.objects.get(pk=jobs[1].pk).last_error
    assert reporter.unwritten() == []


def test_an_end_that_cannot_be_written_at_all_keeps_nobody_else_from_ending(
    reporter: Reporter, jobs: list[Job]
) -> None:
    refusing = Refusing(jobs[0], "completed", "waiting", "failed")
    jobs_changed.connect(refusing)
    try:
        reporter.start()
        for claimed in claimed_by(new_worker()):
            reporter.outcome(Outcome(claimed.lease))
        wait_until(lambda: [status_of(job) for job in jobs] == ["processing", "completed", "completed"])
        wait_until(lambda: reporter.is_clear)
    finally:
        jobs_changed.disconnect(refusing)
    late = enqueue("tests.noop")
    (claimed,) = lifecycle.claim(new_worker())
    reporter.outcome(Outcome(claimed.lease))
    assert wait_until(lambda: status_of(late) == "completed")


def test_outcomes_are_written_before_the_reporter_ends(reporter: Reporter, jobs: list[Job]) -> None:
    reporter.start()
    claimed = claimed_by(new_worker())
    for one in claimed:
        reporter.outcome(Outcome(one.lease))
    assert reporter.finish(timeout=120)
    assert [status_of(job) for job in jobs] == ["completed"] * 3
