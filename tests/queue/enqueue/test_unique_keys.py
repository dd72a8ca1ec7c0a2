"""A unique key: one active job has it, however many ask at the same moment; afterwards it is free again."""

import random
from functools import partial

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs import enqueue, enqueue_many, lifecycle
from jobs.exceptions import UniqueKeyTaken
from jobs.lifecycle import FailureReport
from jobs.models import Job, Status
from tests.support.queue.actors import Background, claim_one, new_worker, race, status_of

pytestmark = pytest.mark.django_db

PERMANENT = FailureReport("ValueError", "no", permanent=True)


def test_a_key_that_is_taken_gives_the_job_that_has_it() -> None:
    first = enqueue("tests.noop", {"n": 1}, unique_key="podcast:7")
    second = enqueue("tests.noop", {"n": 2}, unique_key="podcast:7")
    assert (first.created, second.created) == (True, False)
    assert second.id == first.id
    assert second.payload == {"n": 1}
    assert Job.objects.count() == 1


def test_jobs_with_other_keys_or_none_are_not_concerned() -> None:
    jobs = [enqueue("tests.noop", unique_key=key) for key in ("a", "b", None, None)]
    assert all(job.created for job in jobs)


@pytest.mark.parametrize("state", ["waiting", "pending", "processing"])
def test_the_key_is_taken_as_long_as_the_job_is_active(state: str) -> None:
    job = enqueue("tests.noop", unique_key="k", delay=60 if state == "waiting" else None)
    if state == "processing":
        claim_one()
    assert status_of(job) == state
    again = enqueue("tests.noop", unique_key="k")
    assert (again.id, again.created) == (job.id, False)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_the_key_is_free_again_after_the_job_has_ended(end: str) -> None:
    job = enqueue("tests.noop", unique_key="k")
    match end:
        case "completed":
            lifecycle.complete(claim_one().lease)
        case "failed":
            lifecycle.fail(claim_one().lease, PERMANENT)
        case _:
            lifecycle.cancel(job.id)
    assert status_of(job) == end
    again = enqueue("tests.noop", unique_key="k")
    assert again.created
    assert again.id != job.id


def test_a_retry_of_a_job_whose_key_was_taken_meanwhile_is_refused() -> None:
    old = enqueue("tests.noop", unique_key="k")
    lifecycle.fail(claim_one().lease, PERMANENT)
    new = enqueue("tests.noop", unique_key="k")
    with pytest.raises(UniqueKeyTaken, match=old.id) as refusal:
        lifecycle.retry(old.id)
    assert refusal.value.code == "unique_key_taken"
    assert (status_of(old), status_of(new)) == (Status.FAILED, Status.PENDING)
    lifecycle.complete(claim_one().lease)
    assert lifecycle.retry(old.id) == [old.id]


def test_two_jobs_with_the_same_key_cannot_both_be_retried() -> None:
    jobs = []
    for _ in range(2):
        jobs.append(enqueue("tests.noop", unique_key="k").id)
        lifecycle.fail(claim_one().lease, PERMANENT)
    with pytest.raises(UniqueKeyTaken):
        lifecycle.retry(jobs)
    assert {status_of(job) for job in jobs} == {Status.FAILED}


def test_a_retry_of_many_names_the_one_whose_key_was_taken() -> None:
    old = [enqueue("tests.noop", unique_key=f"k{n}") for n in range(3)]
    lifecycle.cancel([job.id for job in old])
    enqueue("tests.noop", unique_key="k1")
    with pytest.raises(UniqueKeyTaken, match=old[1].id):
        lifecycle.retry([job.id for job in old])
    assert {status_of(job) for job in old} == {Status.CANCELLED}


def test_the_database_itself_refuses_a_second_active_job_with_the_key() -> None:
    enqueue("tests.noop", unique_key="k")
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.create(type="tests.noop", unique_key="k", correlation_id="c")


@pytest.mark.django_db(transaction=True)
def test_ten_racing_enqueuers_make_one_job() -> None:
    jobs = race([partial(enqueue, "tests.noop", {"n": n}, unique_key="k") for n in range(10)])
    assert Job.objects.count() == 1
    assert sorted(job.created for job in jobs) == [False] * 9 + [True]
    assert {job.id for job in jobs} == {Job.objects.get().id}


@pytest.mark.django_db(transaction=True)
def test_an_enqueuer_waits_for_the_other_transaction_and_finds_its_job() -> None:
    with transaction.atomic():
        first = enqueue("tests.noop", unique_key="k")
        other = Background(partial(enqueue, "tests.noop", unique_key="k"))
        other.wait_until_blocked()
    assert (other.result().id, other.result().created) == (first.id, False)


@pytest.mark.django_db(transaction=True)
def test_when_the_other_transaction_rolls_back_the_waiting_enqueuer_makes_the_job() -> None:
    with transaction.atomic():
        enqueue("tests.noop", {"n": 1}, unique_key="k")
        other = Background(partial(enqueue, "tests.noop", {"n": 2}, unique_key="k"))
        other.wait_until_blocked()
        transaction.set_rollback(True)
    assert other.result().created
    assert Job.objects.get().payload == {"n": 2}


def test_a_batch_finds_the_jobs_that_have_its_keys() -> None:
    taken = enqueue("tests.noop", {"n": 1}, unique_key="n:1")
    ids = enqueue_many(
        "tests.noop", [{"n": n} for n in (0, 1, 2, 0)], unique_key=lambda payload: f"n:{payload['n']}"
    )
    assert ids[1] == taken.id
    assert ids[0] == ids[3]
    assert len({*ids}) == 3
    payloads = dict(Job.objects.values_list("id", "payload"))
    assert [payloads[id]["n"] for id in ids] == [0, 1, 2, 0]
    assert Job.objects.count() == 3


def test_jobs_of_a_batch_may_have_no_key() -> None:
    taken = enqueue("tests.noop", unique_key="k").id
    ids = enqueue_many(
        "tests.noop", [{"key": None}, {"key": "k"}, {"key": None}], unique_key=lambda payload: payload["key"]
    )
    assert ids[1] == taken
    assert set(Job.objects.filter(unique_key=None).values_list("id", flat=True)) == {ids[0], ids[2]}


def test_a_batch_with_keys_takes_no_more_statements_for_a_hundred_than_for_two() -> None:
    counts = []
    for start, stop in ((0, 2), (1, 101)):
        with CaptureQueriesContext(connection) as queries:
            enqueue_many(
                "tests.noop",
                [{"n": n} for n in range(start, stop)],
                unique_key=lambda payload: f"n:{payload['n']}",
            )
        counts.append(len(queries))
    assert Job.objects.count() == 101
    assert counts[1] <= counts[0] + 1


def test_jobs_of_a_batch_with_keys_keep_their_order() -> None:
    ids = enqueue_many(
        "tests.noop", [{"n": n} for n in range(20)], unique_key=lambda payload: f"k:{-payload['n']}"
    )
    assert [claimed.lease.job_id for claimed in lifecycle.claim(new_worker(), 20)] == ids


@pytest.mark.django_db(transaction=True)
def test_racing_batches_of_the_same_keys_in_any_order_make_each_job_once() -> None:
    def submit(seed: int) -> list[tuple[int, str]]:
        numbers = random.Random(seed).sample(range(100), 100)
        ids = enqueue_many(
            "tests.noop", [{"n": n} for n in numbers], unique_key=lambda payload: f"n:{payload['n']}"
        )
        return sorted(zip(numbers, ids, strict=True))

    answers = race([partial(submit, seed) for seed in range(4)])
    assert answers[0] == answers[1] == answers[2] == answers[3]
    assert Job.objects.count() == 100
