"""Enqueueing: a job is accepted as described, or refused with the reason and nothing is written."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from jobs import HIGH, LOW, NORMAL, EnqueueRefused, UnknownJobType, database, enqueue, orchestrator
from jobs.models import Event, Job, Status
from tests.conftest import Declare
from tests.support.queue.actors import Background, claimed_ids, new_worker, stored

pytestmark = pytest.mark.django_db


def test_a_job_without_a_delay_is_pending_at_once() -> None:
    job = enqueue("tests.noop", {"a": 1}, b=[2, {"c": None}])
    assert job.created
    assert job.status == Status.PENDING
    after = stored(job)
    assert (after.status, after.type, after.payload) == (
        Status.PENDING,
        "tests.noop",
        {"a": 1, "b": [2, {"c": None}]},
    )
    assert (after.priority, after.attempt_number, after.max_attempts, after.lease_token) == (NORMAL, 0, 3, 0)
    assert (after.unique_key, after.submitter, after.correlation_id) == (None, "", job.id)
    assert (after.worker_id, after.claim_expires_at, after.started_at, after.result) == (
        None,
        None,
        None,
        None,
    )
    assert abs((database.read_clock() - after.created_at).total_seconds()) < 60
    assert not Event.objects.exists()


def test_what_enqueue_returns_agrees_with_what_is_stored() -> None:
    job = enqueue(
        "tests.noop", {"a": 1}, priority=3, submitter="ada", correlation_id="c", max_attempts=9, delay=60
    )
    fields = [field.attname for field in Job._meta.concrete_fields]
    after = stored(job)
    assert {name: getattr(job, name) for name in fields} == {name: getattr(after, name) for name in fields}


def test_the_policy_of_the_type_applies_unless_the_caller_says_otherwise(declare: Declare) -> None:
    declare("here.policy", priority=2, max_attempts=7)
    assert (stored(enqueue("here.policy")).priority, stored(enqueue("here.policy")).max_attempts) == (2, 7)
    job = stored(enqueue("here.policy", priority=HIGH, max_attempts=1))
    assert (job.priority, job.max_attempts) == (HIGH, 1)


def test_the_default_number_of_attempts_is_a_setting(settings: Settings) -> None:
    settings.JOBS = {"MAX_ATTEMPTS": 11}
    assert stored(enqueue("tests.noop")).max_attempts == 11


@pytest.mark.parametrize("priority", [HIGH, NORMAL, LOW, -7, 2**31 - 1, -(2**31)])
def test_any_whole_number_is_a_priority(priority: int) -> None:
    assert stored(enqueue("tests.noop", priority=priority)).priority == priority


@pytest.mark.parametrize("delay", [300, 300.0, timedelta(minutes=5)])
def test_a_delayed_job_waits_for_its_time(delay: Any) -> None:
    job = enqueue("tests.noop", delay=delay)
    assert job.status == Status.WAITING
    after = stored(job)
    assert after.status == Status.WAITING
    assert (after.run_at - database.read_clock()).total_seconds() == pytest.approx(300, abs=60)
    assert claimed_ids(new_worker()) == []
    assert orchestrator.promote_due() == 0
    Job.objects.filter(pk=job.pk).update(run_at=database.now_minus(timedelta(milliseconds=5)))
    assert orchestrator.promote_due() == 1
    assert claimed_ids(new_worker()) == [job.id]


def test_a_job_can_be_given_the_moment_it_may_run() -> None:
    moment = datetime(2199, 7, 1, 12, 0, 0, 123000, tzinfo=ZoneInfo("America/New_York"))
    job = enqueue("tests.noop", run_at=moment)
    assert (stored(job).status, stored(job).run_at) == (Status.WAITING, moment)


def test_a_moment_that_has_passed_means_now() -> None:
    first = enqueue("tests.noop")
    late = enqueue("tests.noop", run_at=timezone.now() - timedelta(days=3))
    assert stored(late).status == Status.PENDING
    assert claimed_ids(new_worker(), 2) == [first.id, late.id]


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(UnknownJobType) as refusal:
        enqueue("no.such.type", a=1)
    assert (refusal.value.code, refusal.value.name) == ("unknown_job_type", "no.such.type")
    assert "tests.noop" in refusal.value.known
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"priority": 1.5}, "bad_priority"),
        ({"priority": "urgent"}, "bad_priority"),
        ({"priority": True}, "bad_priority"),
        ({"priority": 2**31}, "bad_priority"),
        ({"delay": -1}, "bad_delay"),
        ({"delay": float("nan")}, "bad_delay"),
        ({"delay": float("inf")}, "bad_delay"),
        ({"delay": timedelta(days=999_999_999)}, "bad_delay"),
        ({"delay": "soon"}, "bad_delay"),
        ({"delay": 5, "run_at": timezone.now()}, "delay_and_run_at"),
        ({"run_at": datetime(2199, 1, 1)}, "bad_run_at"),  # noqa: DTZ001
        ({"run_at": "tomorrow"}, "bad_run_at"),
        ({"max_attempts": 0}, "bad_max_attempts"),
        ({"max_attempts": -1}, "bad_max_attempts"),
        ({"max_attempts": 2.5}, "bad_max_attempts"),
        ({"max_attempts": 2**31}, "bad_max_attempts"),
        ({"unique_key": ""}, "bad_unique_key"),
        ({"unique_key": "k" * 201}, "bad_unique_key"),
        ({"unique_key": 7}, "bad_unique_key"),
        ({"unique_key": "a\0b"}, "bad_unique_key"),
        ({"unique_key": "caf\udce9"}, "bad_unique_key"),
        ({"submitter": "s" * 201}, "bad_submitter"),
        ({"submitter": "caf\udce9"}, "bad_submitter"),
        ({"correlation_id": "c" * 65}, "bad_correlation_id"),
        ({"correlation_id": "a\0b"}, "bad_correlation_id"),
    ],
)
def test_nonsense_is_refused_with_the_reason_and_nothing_is_written(
    options: dict[str, Any], code: str
) -> None:
    with pytest.raises(EnqueueRefused) as refusal:
        enqueue("tests.noop", **options)
    assert refusal.value.code == code
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_job_is_rolled_back_with_the_transaction_that_enqueued_it() -> None:
    with transaction.atomic():
        enqueue("tests.noop")
        assert Job.objects.exists()
        transaction.set_rollback(True)
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_nobody_can_claim_a_job_before_the_transaction_that_enqueued_it_commits() -> None:
    worker = new_worker()
    with transaction.atomic():
        job = enqueue("tests.noop")
        assert Background(lambda: claimed_ids(worker)).result() == []
    assert claimed_ids(worker) == [job.id]
