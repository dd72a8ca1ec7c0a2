"""Recovery, renewal and reports that meet at the same row: lock, then check. Two connections, one holds the lock."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from jobs import LeaseLost, database, enqueue, enqueue_many, lifecycle
from jobs.lifecycle import FailureReport, Lease, ProgressReport
from jobs.lifecycle.leases import lock_leased
from jobs.models import Attempt, Event, Job, Status
from tests.support.queue.actors import (
    Background,
    claim_one,
    claimed_ids,
    expire,
    new_worker,
    outcomes_of,
    race,
    race_outcomes,
    status_of,
    stored,
)
from tests.support.queue.expiry import within_grace as within_grace  # fixtures
from tests.support.queue.expiry import without_grace as without_grace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("without_grace")]

FAILURE = FailureReport("ValueError", "no")


@pytest.mark.usefixtures("within_grace")
def test_a_recovery_that_waited_for_a_completion_takes_nothing_back() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    expire(job.id)
    with transaction.atomic():
        lifecycle.complete(lease, {"n": 1})
        recovery = Background(lifecycle.recover_expired)
        recovery.wait_until_blocked()
    assert recovery.result() == []
    assert status_of(job) == Status.COMPLETED
    assert outcomes_of(job.id) == ["completed"]


@pytest.mark.usefixtures("within_grace")
def test_a_completion_that_waited_for_a_recovery_is_refused() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    expire(job.id)
    with transaction.atomic():
        assert lifecycle.recover_expired() == [job.id]
        completion = Background(partial(lifecycle.complete, lease, {"n": 1}))
        completion.wait_until_blocked()
    assert isinstance(completion.outcome(), LeaseLost)
    assert status_of(job) == Status.PENDING
    assert stored(job).result is None
    assert outcomes_of(job.id) == ["lost"]


@pytest.mark.usefixtures("within_grace")
def test_a_failure_that_waited_for_a_recovery_is_refused() -> None:
    job = enqueue("tests.noop", max_attempts=1)
    lease = claim_one().lease
    expire(job.id)
    with transaction.atomic():
        lifecycle.recover_expired()
        failure = Background(partial(lifecycle.fail, lease, FAILURE))
        failure.wait_until_blocked()
    assert isinstance(failure.outcome(), LeaseLost)
    assert status_of(job) == Status.FAILED
    assert outcomes_of(job.id) == ["lost"]


@pytest.mark.usefixtures("within_grace")
def test_a_recovery_that_waited_for_a_renewal_takes_nothing_back() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    claim_one(worker)
    expire(job.id)
    with transaction.atomic():
        assert lifecycle.renew(worker.pk) == 1
        recovery = Background(lifecycle.recover_expired)
        recovery.wait_until_blocked()
    assert recovery.result() == []
    assert status_of(job) == Status.PROCESSING


@pytest.mark.usefixtures("within_grace")
def test_a_recovery_that_waited_for_progress_takes_nothing_back() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    expire(job.id)
    with transaction.atomic():
        assert lifecycle.report_progress([ProgressReport(lease, 10)]) == []
        recovery = Background(lifecycle.recover_expired)
        recovery.wait_until_blocked()
    assert recovery.result() == []
    assert status_of(job) == Status.PROCESSING


@pytest.mark.usefixtures("within_grace")
def test_a_renewal_that_waited_for_a_recovery_renews_nothing() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    claim_one(worker)
    expire(job.id)
    with transaction.atomic():
        lifecycle.recover_expired()
        renewal = Background(partial(lifecycle.renew, worker.pk))
        if database.is_postgres():
            renewal.wait_until_blocked()  # on SQLite an UPDATE of its own has no BEGIN to watch
    assert renewal.result() == 0
    assert status_of(job) == Status.PENDING
    assert stored(job).claim_expires_at is None


@pytest.mark.usefixtures("within_grace")
def test_progress_that_waited_for_a_recovery_and_a_new_claim_is_refused() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    expire(job.id)
    with transaction.atomic():
        lifecycle.recover_expired()
        claimed = claim_one()
        progress = Background(partial(lifecycle.report_progress, [ProgressReport(lease, 99, "stale")]))
        progress.wait_until_blocked()
    assert progress.result() == [lease]
    assert (stored(job).progress_percent, stored(job).current_step) == (0, "")
    lifecycle.complete(claimed.lease)


@pytest.mark.parametrize(
    "write",
    [
        lifecycle.complete,
        lambda lease: lifecycle.fail(lease, FAILURE),
        lambda lease: lifecycle.report_progress([ProgressReport(lease, 99, "late")]),
        lambda lease: lifecycle.release([lease]),
        lambda lease: in_transaction(partial(lock_leased, lease)),
    ],
    ids=["complete", "fail", "progress", "release", "lock"],
)
def test_a_write_that_waited_for_the_lock_while_its_lease_expired_is_refused(
    write: Callable[[Lease], Any],
) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    with transaction.atomic():
        expire(job.id)
        late = Background(partial(write, lease))
        late.wait_until_blocked()
    outcome: Any = late.outcome()
    assert isinstance(outcome, LeaseLost) or list(outcome) == [lease]
    after = stored(job)
    assert (after.status, after.progress_percent) == (Status.PROCESSING, 0), "nobody has swept"
    assert outcomes_of(job.id) == ["running"]


def in_transaction(action: Callable[[], Any]) -> Any:
    with database.atomic():
        return action()


def test_a_completion_that_waited_for_a_cancellation_is_refused() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    with transaction.atomic():
        lifecycle.cancel(job.id)
        completion = Background(partial(lifecycle.complete, lease))
        completion.wait_until_blocked()
    assert isinstance(completion.outcome(), LeaseLost)
    assert status_of(job) == Status.CANCELLED


def test_a_cancellation_that_waited_for_a_completion_cancels_nothing() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    with transaction.atomic():
        lifecycle.complete(lease)
        cancellation = Background(partial(lifecycle.cancel, job.id))
        cancellation.wait_until_blocked()
    assert cancellation.result() == []
    assert status_of(job) == Status.COMPLETED
    assert not Event.objects.exists()


def test_of_two_racing_recoveries_only_one_recovers() -> None:
    jobs = enqueue_many("tests.noop", [{}] * 10)
    claimed_ids(new_worker(), 10)
    for job in jobs:
        expire(job)
    answers = race([lifecycle.recover_expired] * 4)
    assert sorted(id for answer in answers for id in answer) == jobs
    assert Attempt.objects.filter(outcome="lost").count() == Event.objects.count() == 10


@pytest.mark.usefixtures("within_grace")
def test_however_completion_and_recovery_race_exactly_one_of_them_wins() -> None:
    jobs = enqueue_many("tests.noop", [{}] * 12)
    leases = [claimed.lease for claimed in lifecycle.claim(new_worker(), 12)]
    for job in jobs:
        expire(job)

    def complete_all() -> set[str]:
        return {lease.job_id for lease in leases} - {
            lease.job_id for lease in lifecycle.complete_many([(lease, None) for lease in leases])
        }

    completed, recovered = race_outcomes([complete_all, lambda: set(lifecycle.recover_expired())])
    assert isinstance(completed, set)
    assert isinstance(recovered, set)
    assert completed | recovered == set(jobs)
    assert completed & recovered == set()
    assert Job.objects.completed().count() == len(completed)


def test_completing_the_same_job_from_two_connections_succeeds_twice_and_counts_once() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    race([partial(lifecycle.complete, lease, {"n": 1})] * 4)
    assert outcomes_of(job.id) == ["completed"]
    assert stored(job).result == {"n": 1}
