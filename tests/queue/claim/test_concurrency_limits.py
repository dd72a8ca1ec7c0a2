"""A type's concurrency limit: it holds under any number of racing workers, and only live leases count."""

from functools import partial

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from jobs import enqueue, enqueue_many, lifecycle
from jobs.models import Attempt, Job, JobTypeState, Worker
from tests.conftest import Declare
from tests.support.queue.actors import Background, age, claim_one, claimed_ids, expire, new_worker, race

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _expiry_counts_at_once(settings: Settings) -> None:
    settings.JOBS = {"RECOVERY_GRACE": "1ms"}


def peak_of_attempts() -> int:
    """How many attempts ran at the same moment at most, by the database's clock."""
    changes = [
        change
        for started, finished in Attempt.objects.values_list("started_at", "finished_at")
        for change in ((started, 1), (finished, -1))
    ]
    running = peak = 0
    for _, step in sorted(changes):  # at the same instant an end comes before a start
        running += step
        peak = max(peak, running)
    return peak


@pytest.mark.django_db(transaction=True)
def test_a_limit_of_three_is_never_exceeded_by_twenty_racing_claimers(declare: Declare) -> None:
    declare("here.limited", concurrency=3)
    enqueue_many("here.limited", [{}] * 40)
    workers = [new_worker() for _ in range(20)]

    def work(worker: Worker) -> int:
        """Claims and completes until nothing is left; the most live leases it ever saw."""
        seen = 0
        while Job.objects.active().exists():
            for claimed in lifecycle.claim(worker, 2):
                seen = max(seen, Job.objects.claimed().count())
                lifecycle.complete(claimed.lease)
        return seen

    assert max(race([partial(work, worker) for worker in workers])) <= 3
    assert peak_of_attempts() <= 3
    assert Job.objects.completed().count() == 40


@pytest.mark.django_db(transaction=True)
def test_twenty_claimers_that_come_at_once_share_the_three_places(declare: Declare) -> None:
    declare("here.limited", concurrency=3)
    enqueue_many("here.limited", [{}] * 20)
    workers = [new_worker() for _ in range(20)]
    answers = race([partial(claimed_ids, worker, 5) for worker in workers])
    assert sum(len(answer) for answer in answers) == 3
    assert Job.objects.claimed().count() == 3


@pytest.mark.django_db(transaction=True)
def test_a_claim_of_a_limited_type_waits_for_the_one_that_is_counting(declare: Declare) -> None:
    declare("here.limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 2)
    first, second = new_worker(), new_worker()
    with transaction.atomic():
        assert len(claimed_ids(first)) == 1
        other = Background(partial(claimed_ids, second))
        other.wait_until_blocked()
    assert other.result() == []


def test_a_batch_is_cut_to_the_room_its_types_have(declare: Declare) -> None:
    declare("here.limited", concurrency=2)
    enqueue_many("here.limited", [{}] * 5, priority=0)
    enqueue_many("tests.noop", [{}] * 5)
    claimed = lifecycle.claim(new_worker(), 6)
    assert [job.type for job in claimed] == ["here.limited"] * 2 + ["tests.noop"] * 4


@pytest.mark.parametrize("old", [False, True])
def test_the_limit_counts_over_all_priorities_of_a_type(declare: Declare, old: bool) -> None:
    declare("here.limited", concurrency=3)
    for priority in (0, 3, 5, 8):
        jobs = enqueue_many("here.limited", [{}] * 3, priority=priority)
        age(jobs, 3600 if old else 1)
    claimed = lifecycle.claim(new_worker(), 20)
    assert len(claimed) == 3
    assert old or [job.priority for job in claimed] == [0, 0, 0]


def test_a_type_without_room_does_not_hide_jobs_of_other_types(declare: Declare) -> None:
    declare("here.limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 200, priority=0)
    worker = new_worker()
    assert len(claimed_ids(worker, 1)) == 1
    free = enqueue("tests.noop").id
    assert claimed_ids(worker, 1) == [free]


@pytest.mark.parametrize("end", ["complete", "fail", "release", "cancel"])
def test_every_end_of_a_lease_frees_its_place(declare: Declare, end: str) -> None:
    declare("here.limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 2)
    worker = new_worker()
    held = claim_one(worker).lease
    assert claimed_ids(worker) == []
    match end:
        case "complete":
            lifecycle.complete(held)
        case "fail":
            lifecycle.fail(held, lifecycle.FailureReport("Error", "no", permanent=True))
        case "release":
            lifecycle.release([held])
        case _:
            lifecycle.cancel(held.job_id)
    assert len(claimed_ids(worker)) == 1


def test_an_expired_lease_does_not_hold_a_place(declare: Declare) -> None:
    declare("here.limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 2)
    stuck = claim_one().lease
    worker = new_worker()
    assert claimed_ids(worker) == []
    expire(stuck.job_id)
    assert len(claimed_ids(worker)) == 1


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no server that could be down")
def test_a_lease_that_expired_while_the_database_was_down_keeps_its_place_for_a_while(
    declare: Declare, settings: Settings
) -> None:
    settings.JOBS = {"RECOVERY_GRACE": "1000d"}
    declare("here.limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 2)
    worker = new_worker()
    expire(claim_one(worker).lease.job_id)
    assert claimed_ids(new_worker()) == []
    assert lifecycle.renew(worker.pk) == 1


def test_the_leases_of_a_dead_worker_hold_no_place_once_they_are_recovered(declare: Declare) -> None:
    declare("here.limited", concurrency=2)
    enqueue_many("here.limited", [{}] * 4)
    dead, alive = new_worker(), new_worker()
    assert len(claimed_ids(dead, 4)) == 2
    assert claimed_ids(alive) == []
    lifecycle.recover_lost(dead.pk, "its process no longer exists")
    assert len(claimed_ids(alive, 4)) == 2


def test_a_lease_whose_place_was_given_away_cannot_be_renewed_beyond_the_limit(declare: Declare) -> None:
    declare("here.limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 2)
    sleeper, other = new_worker(), new_worker()
    lost = claim_one(sleeper).lease
    expire(lost.job_id)
    assert len(claimed_ids(other)) == 1
    lifecycle.renew(sleeper.pk)
    lifecycle.report_progress([lifecycle.ProgressReport(lost, 50)])
    assert Job.objects.claimed().count() == 1


def test_the_limit_can_be_changed_at_run_time(declare: Declare) -> None:
    declare("here.limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 9)
    worker = new_worker()
    assert len(claimed_ids(worker, 9)) == 1
    JobTypeState.objects.filter(name="here.limited").update(concurrency=4)
    assert len(claimed_ids(worker, 9)) == 3
    JobTypeState.objects.filter(name="here.limited").update(concurrency=2)
    assert claimed_ids(worker, 9) == []
    JobTypeState.objects.filter(name="here.limited").update(concurrency=None)
    assert claimed_ids(worker, 9) == []


def test_a_type_without_a_declared_limit_can_be_given_one(declare: Declare) -> None:
    declare("here.free")
    enqueue_many("here.free", [{}] * 9)
    JobTypeState.objects.update_or_create(name="here.free", defaults={"concurrency": 2})
    assert len(claimed_ids(new_worker(), 9)) == 2


def test_a_limit_of_zero_stops_a_type(declare: Declare) -> None:
    declare("here.free")
    enqueue("here.free")
    JobTypeState.objects.update_or_create(name="here.free", defaults={"concurrency": 0})
    assert claimed_ids(new_worker(), 9) == []


def test_jobs_of_other_types_do_not_count_against_the_limit(declare: Declare) -> None:
    declare("here.limited", concurrency=1)
    declare("here.also_limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 2)
    enqueue_many("here.also_limited", [{}] * 2)
    assert {job.type for job in lifecycle.claim(new_worker(), 4)} == {"here.limited", "here.also_limited"}
