"""Failed attempts: tried again after a wait that is stored, exactly as often as max_attempts says."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import JobContext, PermanentFailure, RetryLater, database, enqueue, lifecycle, orchestrator
from jobs.invariants import broken_rules
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Event, Job, Status
from jobs.testing import run_due_jobs
from tests.conftest import Declare
from tests.support.queue.actors import (
    claim_one,
    claimed_ids,
    expire,
    new_worker,
    outcomes_of,
    status_of,
    stored,
)

pytestmark = pytest.mark.django_db

FAILURE = FailureReport("ValueError", "no")


def seconds_until_due(job_id: str) -> float:
    return float((stored(job_id).run_at - database.read_clock()).total_seconds())


def make_due(job_id: str) -> None:
    Job.objects.filter(pk=job_id).update(run_at=database.now_minus(timedelta(seconds=1)))
    assert orchestrator.promote_due() == 1


def test_a_failed_attempt_is_tried_again_after_a_while(settings: Settings) -> None:
    settings.JOBS = {"BACKOFF_BASE": "100s"}
    job = enqueue("tests.noop")
    assert lifecycle.fail(claim_one().lease, FAILURE) == Status.WAITING
    after = stored(job)
    assert (after.status, after.attempt_number, after.last_error) == (Status.WAITING, 1, "ValueError: no")
    assert (after.worker_id, after.claim_expires_at) == (None, None)
    assert 40 < seconds_until_due(job.id) <= 100
    assert claimed_ids(new_worker()) == []
    make_due(job.id)
    assert claim_one().attempt == 2


def test_each_wait_is_longer_until_the_cap(settings: Settings) -> None:
    settings.JOBS = {"BACKOFF_BASE": "100s", "BACKOFF_CAP": "300s"}
    job = enqueue("tests.noop", max_attempts=4)
    for shortest, longest in ((50, 100), (100, 200), (150, 300)):
        lifecycle.fail(claim_one().lease, FAILURE)
        assert shortest - 10 < seconds_until_due(job.id) <= longest
        make_due(job.id)


@pytest.mark.parametrize("max_attempts", [1, 3])
@pytest.mark.parametrize("way", ["exception", "lost worker", "mixed"])
def test_exactly_max_attempts_runs_happen(max_attempts: int, way: str) -> None:
    job = enqueue("tests.noop", max_attempts=max_attempts)
    runs = 0
    while status_of(job) != Status.FAILED:
        lease = claim_one().lease
        runs += 1
        if way == "exception" or (way == "mixed" and runs % 2):
            lifecycle.fail(lease, FAILURE)
        else:
            expire(job.id)
            lifecycle.recover_expired()
        if status_of(job) == Status.WAITING:
            make_due(job.id)
    assert runs == max_attempts
    assert stored(job).attempt_number == max_attempts
    assert len(outcomes_of(job.id)) == max_attempts
    assert stored(job).last_error != ""
    assert lifecycle.claim(new_worker(), 1) == []


def test_a_release_does_not_count() -> None:
    job = enqueue("tests.noop", max_attempts=1)
    for _ in range(5):
        lifecycle.release([claim_one().lease])
    lifecycle.complete(claim_one().lease)
    assert status_of(job) == Status.COMPLETED
    assert stored(job).attempt_number == 1


def test_a_job_that_kills_every_worker_ends_failed_and_says_so() -> None:
    job = enqueue("tests.noop", max_attempts=2)
    for _ in range(2):
        worker = new_worker()
        claim_one(worker)
        lifecycle.recover_lost(worker.pk, "process 7 no longer exists")
    assert status_of(job) == Status.FAILED
    assert "process 7 no longer exists" in stored(job).last_error
    assert stored(job).attempt_number == stored(job).max_attempts
    assert outcomes_of(job.id) == ["lost", "lost"]


def test_a_permanent_failure_skips_the_remaining_attempts(declare: Declare) -> None:
    def give_up(job: JobContext) -> None:
        raise PermanentFailure("the file is no video")

    declare("here.give_up", give_up, max_attempts=5)
    job = enqueue("here.give_up")
    (run,) = run_due_jobs(raise_errors=False)
    assert run.status == Status.FAILED
    assert stored(job).last_error == "PermanentFailure: the file is no video"
    assert stored(job).attempt_number == 1


@pytest.mark.parametrize("delay", [1000, timedelta(seconds=1000)])
def test_retry_later_sets_its_own_delay(declare: Declare, delay: Any) -> None:
    def later(job: JobContext) -> None:
        raise RetryLater(delay, "the platform is busy")

    declare("here.later", later)
    job = enqueue("here.later")
    (run,) = run_due_jobs()
    assert run.status == Status.WAITING
    assert 940 < seconds_until_due(job.id) <= 1000
    assert stored(job).last_error == "RetryLater: the platform is busy"


def test_without_a_delay_it_is_due_at_once() -> None:
    """Also within one tick of the clock: SQLite compares moments as text."""
    enqueue("tests.noop")
    soon = Job.objects.annotate(moment=database.now_plus(timedelta(0)))
    assert soon.filter(moment=Now()).exists()
    assert Job.objects.annotate(moment=database.now_plus(timedelta(milliseconds=1))).filter(moment__gt=Now())
    assert Job.objects.annotate(moment=database.now_minus(timedelta(days=400))).filter(moment__lt=Now())


def test_retry_later_counts_as_an_attempt(declare: Declare) -> None:
    def later(job: JobContext) -> None:
        raise RetryLater(0)

    declare("here.later", later, max_attempts=3)
    job = enqueue("here.later")
    runs = run_due_jobs(ahead=timedelta(days=1))
    assert [run.status for run in runs] == [Status.WAITING, Status.WAITING, Status.FAILED]
    assert outcomes_of(job.id) == ["failed"] * 3


def test_retry_later_can_give_the_attempt_back(declare: Declare) -> None:
    """It may go on for as long as it takes; what fails afterwards has all its attempts."""
    tokens: list[int] = []

    def not_yet(job: JobContext) -> None:
        tokens.append(job.lease.token)
        assert job.attempt == 1
        if len(tokens) < 4:
            raise RetryLater(60, "the disk is not mounted", counted=False)
        raise ValueError("mounted, but empty")

    declare("here.not_yet", not_yet, max_attempts=1)
    job = enqueue("here.not_yet")
    (run,) = run_due_jobs()
    assert (run.status, stored(job).attempt_number) == (Status.WAITING, 0)
    assert 0 < seconds_until_due(job.id) <= 60
    assert stored(job).last_error == "RetryLater: the disk is not mounted"
    runs = run_due_jobs(ahead=timedelta(days=1), raise_errors=False)
    assert [run.status for run in runs] == [Status.WAITING, Status.WAITING, Status.FAILED]
    assert tokens == [1, 2, 3, 4]
    assert outcomes_of(job.id) == ["released"] * 3 + ["failed"]
    assert {event.detail for event in Event.objects.filter(job=job)} == {
        "RetryLater: the disk is not mounted"
    }
    assert Attempt.objects.filter(job=job).earliest("token").error == "the disk is not mounted"
    assert broken_rules() == []


@pytest.mark.parametrize("delay", [timedelta.max, timedelta.min, timedelta(days=400_000), -5, 1e9])
def test_an_absurd_delay_is_brought_to_reason(declare: Declare, delay: Any) -> None:
    def later(job: JobContext) -> None:
        raise RetryLater(delay)

    declare("here.later", later)
    job = enqueue("here.later")
    run_due_jobs(limit=1)
    assert status_of(job) == Status.WAITING
    assert -60 < seconds_until_due(job.id) < 101 * 366 * 86400


def test_errors_of_earlier_attempts_are_kept(declare: Declare) -> None:
    def stumble(job: JobContext) -> str:
        if job.attempt < 3:
            raise ValueError(f"stumble {job.attempt}")
        return "done"

    declare("here.stumble", stumble)
    job = enqueue("here.stumble")
    run_due_jobs(ahead=timedelta(days=1), raise_errors=False)
    assert (status_of(job), stored(job).result) == (Status.COMPLETED, "done")
    attempts = Attempt.objects.filter(job=job).order_by("token")
    assert [attempt.error for attempt in attempts] == ["stumble 1", "stumble 2", ""]
    assert all("stumble" in attempt.traceback for attempt in attempts[:2])


def test_a_job_that_is_retried_shows_as_retrying() -> None:
    job = enqueue("tests.noop")
    assert not Job.objects.retrying().exists()
    lifecycle.fail(claim_one().lease, FAILURE)
    assert Job.objects.retrying().get().id == job.id
    make_due(job.id)
    assert Job.objects.retrying().get().id == job.id


def test_a_handler_that_does_not_fit_its_payload_fails_for_good(declare: Declare) -> None:
    def picky(job: JobContext, *, colour: str) -> None: ...

    declare("here.picky", picky)
    job = enqueue("here.picky", {"size": 3})
    (run,) = run_due_jobs(raise_errors=False)
    assert run.status == Status.FAILED
    assert "colour" in stored(job).last_error
