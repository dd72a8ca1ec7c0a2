"""A lease is the only right to speak about a running job: who lost it changes nothing."""

from collections.abc import Callable

import pytest

from jobs import JobContext, LeaseLost, enqueue, lifecycle
from jobs.lifecycle import ClaimedJob, FailureReport, Lease, ProgressReport
from jobs.models import Attempt, Job, Status
from tests.support.queue.actors import claim_one, expire, new_worker, outcomes_of, status_of, stored

pytestmark = pytest.mark.django_db

FAILURE = FailureReport("ValueError", "no")


def context_of(claimed: ClaimedJob) -> JobContext:
    return JobContext(claimed, report=lambda report: None)


def complete(claimed: ClaimedJob) -> None:
    with pytest.raises(LeaseLost) as refusal:
        lifecycle.complete(claimed.lease, {"by": "stale"})
    assert (refusal.value.code, refusal.value.job_id) == ("lease_lost", claimed.lease.job_id)


def fail(claimed: ClaimedJob) -> None:
    with pytest.raises(LeaseLost):
        lifecycle.fail(claimed.lease, FAILURE)


def fail_for_good(claimed: ClaimedJob) -> None:
    with pytest.raises(LeaseLost):
        lifecycle.fail(claimed.lease, FailureReport("ValueError", "never", permanent=True))


def progress(claimed: ClaimedJob) -> None:
    assert lifecycle.report_progress([ProgressReport(claimed.lease, 77, "stale")]) == [claimed.lease]


def release(claimed: ClaimedJob) -> None:
    assert lifecycle.release([claimed.lease]) == {claimed.lease}


def add_child(claimed: ClaimedJob) -> None:
    with pytest.raises(LeaseLost):
        context_of(claimed).add("tests.noop", key="child")


WRITES = [complete, fail, fail_for_good, progress, release, add_child]


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_whose_lease_expired_and_was_claimed_by_another_changes_nothing(
    write: Callable[[ClaimedJob], None],
) -> None:
    job = enqueue("tests.noop")
    stale = claim_one()
    expire(job.id)
    assert lifecycle.recover_expired() == [job.id]
    claimed = claim_one(new_worker())
    before = Job.objects.filter(pk=job.id).values().get()
    write(stale)
    assert Job.objects.filter(pk=job.id).values().get() == before
    assert Job.objects.count() == 1
    assert outcomes_of(job.id) == ["lost", "running"]
    lifecycle.complete(claimed.lease, {"by": "holder"})
    assert stored(job).result == {"by": "holder"}


@pytest.mark.parametrize("write", WRITES)
def test_an_old_lease_is_dead_even_when_the_same_worker_has_claimed_the_job_again(
    write: Callable[[ClaimedJob], None],
) -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    old = claim_one(worker)
    expire(job.id)
    lifecycle.recover_expired()
    claimed = claim_one(worker)
    assert claimed.lease.worker_id == old.lease.worker_id
    assert claimed.lease.token > old.lease.token
    before = Job.objects.filter(pk=job.id).values().get()
    write(old)
    assert Job.objects.filter(pk=job.id).values().get() == before
    lifecycle.complete(claimed.lease)
    assert status_of(job) == Status.COMPLETED


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("end", ["recovered", "cancelled", "released", "discarded"])
def test_a_lease_that_has_ended_changes_nothing(write: Callable[[ClaimedJob], None], end: str) -> None:
    job = enqueue("tests.noop")
    stale = claim_one()
    match end:
        case "recovered":
            expire(job.id)
            lifecycle.recover_expired()
        case "cancelled":
            lifecycle.cancel(job.id)
        case "released":
            lifecycle.release([stale.lease])
        case _:
            lifecycle.cancel(job.id)
            lifecycle.discard(job.id)
    before = list(Job.objects.values())
    write(stale)
    assert list(Job.objects.values()) == before


@pytest.mark.parametrize("forged", ["token", "worker"])
def test_a_lease_that_was_never_given_changes_nothing(forged: str) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    false = (
        Lease(lease.job_id, lease.token + 1, lease.worker_id)
        if forged == "token"
        else Lease(lease.job_id, lease.token, new_worker().pk)
    )
    with pytest.raises(LeaseLost):
        lifecycle.complete(false)
    assert lifecycle.report_progress([ProgressReport(false, 50)]) == [false]
    assert status_of(job) == Status.PROCESSING


def test_completing_twice_is_a_success_both_times() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    lifecycle.complete(lease, {"answer": 42})
    first = Job.objects.filter(pk=job.id).values().get()
    lifecycle.complete(lease, {"answer": 43})
    assert Job.objects.filter(pk=job.id).values().get() == first
    assert stored(job).result == {"answer": 42}
    assert outcomes_of(job.id) == ["completed"]


def test_the_same_report_twice_in_one_batch_is_a_success_too() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    assert lifecycle.complete_many([(lease, {"n": 1}), (lease, {"n": 1})]) == set()
    assert stored(job).result == {"n": 1}


def test_a_batch_completes_what_is_held_and_names_what_is_lost() -> None:
    for _ in range(3):
        enqueue("tests.noop")
    held, lost, done = (claimed.lease for claimed in lifecycle.claim(new_worker(), 3))
    expire(lost.job_id)
    lifecycle.recover_expired()
    lifecycle.complete(done)
    assert lifecycle.complete_many([(held, None), (lost, None), (done, None)]) == {lost}
    assert status_of(held.job_id) == Status.COMPLETED
    assert status_of(lost.job_id) == Status.PENDING


def test_failing_twice_with_the_same_lease_counts_once() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    assert lifecycle.fail(lease, FAILURE) == Status.WAITING
    first = Job.objects.filter(pk=job.id).values().get()
    assert lifecycle.fail(lease, FailureReport("ValueError", "another text")) == Status.WAITING
    assert Job.objects.filter(pk=job.id).values().get() == first
    assert Attempt.objects.get(job=job).error == "no"


def test_a_permanent_failure_reported_twice_is_answered_the_same_way() -> None:
    enqueue("tests.noop")
    lease = claim_one().lease
    failure = FailureReport("ValueError", "no", permanent=True)
    assert lifecycle.fail(lease, failure) == Status.FAILED
    assert lifecycle.fail(lease, failure) == Status.FAILED


def test_a_job_that_was_completed_cannot_fail_with_the_same_lease() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    lifecycle.complete(lease)
    with pytest.raises(LeaseLost):
        lifecycle.fail(lease, FAILURE)
    assert status_of(job) == Status.COMPLETED


def test_a_job_that_has_failed_cannot_be_completed_with_the_same_lease() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    lifecycle.fail(lease, FAILURE)
    with pytest.raises(LeaseLost):
        lifecycle.complete(lease, {"too": "late"})
    assert status_of(job) == Status.WAITING
    assert stored(job).result is None


def test_the_token_goes_up_at_every_claim_and_every_recovery() -> None:
    job = enqueue("tests.noop", max_attempts=5)
    tokens = [stored(job).lease_token]
    for _ in range(2):
        tokens.append(claim_one().lease.token)
        expire(job.id)
        lifecycle.recover_expired()
        tokens.append(stored(job).lease_token)
    assert tokens == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("result", [None, 0, "", [], {"a": [1, 2.5, None, True, "ß"]}, "text", 12, False])
def test_the_result_is_stored(result: object) -> None:
    job = enqueue("tests.noop")
    lifecycle.complete(claim_one().lease, result)
    assert stored(job).result == result
