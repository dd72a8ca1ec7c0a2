"""How many jobs are accepted: the depth of the queue and the rate of each submitter."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import EnqueueRefused, QueueFull, RateLimited, capacity, enqueue, enqueue_many, lifecycle, workflow
from jobs.models import Job, SubmissionWindow
from tests.conftest import RunManage
from tests.support.pages.codes import numbers_in
from tests.support.queue.actors import claim_one, race_outcomes

pytestmark = pytest.mark.django_db


def test_a_full_queue_refuses_and_writes_nothing(settings: Settings) -> None:
    settings.JOBS = {"MAX_DEPTH": 3}
    for _ in range(3):
        enqueue("tests.noop")
    with pytest.raises(QueueFull, match="MAX_DEPTH") as refusal:
        enqueue("tests.noop")
    assert isinstance(refusal.value, EnqueueRefused)
    assert (refusal.value.code, refusal.value.depth, refusal.value.limit) == ("queue_full", 3, 3)
    assert refusal.value.retry_after > 0
    assert Job.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_the_refusal_tells_how_many_there_are_also_beyond_the_limit(
    settings: Settings, run_manage: RunManage
) -> None:
    enqueue_many("tests.noop", [{}] * 7)
    settings.JOBS = {"MAX_DEPTH": 3}
    with pytest.raises(QueueFull) as refusal:
        enqueue_many("tests.noop", [{}] * 2)
    assert (refusal.value.depth, refusal.value.limit) == (7, 3)
    refused = run_manage("enqueue", "tests.noop", "--count=2", env={"JOBS_MAX_DEPTH": "3"}, check=False)
    assert refused.returncode == 1
    assert numbers_in(refused.stderr)[:3] == [7, 2, 3]


def test_a_batch_that_does_not_fit_is_refused_as_a_whole(settings: Settings) -> None:
    settings.JOBS = {"MAX_DEPTH": 3}
    enqueue("tests.noop")
    with pytest.raises(QueueFull):
        enqueue_many("tests.noop", [{}] * 3)
    assert Job.objects.count() == 1
    enqueue_many("tests.noop", [{}] * 2)


def test_every_active_job_counts_and_no_finished_one(settings: Settings) -> None:
    settings.JOBS = {"MAX_DEPTH": 3}
    enqueue("tests.noop")
    claim_one()
    enqueue("tests.noop")
    enqueue("tests.noop", delay=3600)
    with pytest.raises(QueueFull):
        enqueue("tests.noop")
    lifecycle.complete(claim_one().lease)
    enqueue("tests.noop")
    with pytest.raises(QueueFull):
        enqueue("tests.noop")
    lifecycle.cancel(list(Job.objects.active().values_list("pk", flat=True)))
    enqueue_many("tests.noop", [{}] * 3)


def test_jobs_that_wait_for_others_count_too(settings: Settings) -> None:
    settings.JOBS = {"MAX_DEPTH": 3}
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        flow.add("tests.noop", after=[first])
        flow.add("tests.noop", after=[first])
    with pytest.raises(QueueFull):
        flow.add("tests.noop", after=[first])
    with pytest.raises(QueueFull):
        enqueue("tests.noop")


def test_nobody_is_refused_on_an_estimate(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count is believed for a while; but before a refusal it is made anew."""
    monkeypatch.setattr(capacity, "_TRUST_PER_ROW", 3600)
    settings.JOBS = {"MAX_DEPTH": 5}
    with transaction.atomic():
        enqueue_many("tests.noop", [{}] * 4)
        transaction.set_rollback(True)
    enqueue_many("tests.noop", [{}] * 3)
    assert Job.objects.count() == 3


def test_a_large_queue_is_not_counted_for_every_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "_TRUST_PER_ROW", 3600)
    enqueue_many("tests.noop", [{}] * 10)
    with CaptureQueriesContext(connection) as queries:
        enqueue("tests.noop")
    assert len([query for query in queries.captured_queries if "COUNT" in query["sql"]]) == 0


def test_a_job_for_a_small_queue_is_one_count_and_one_insert() -> None:
    with CaptureQueriesContext(connection) as queries:
        enqueue("tests.noop")
    statements = [query["sql"] for query in queries.captured_queries if "SAVEPOINT" not in query["sql"]]
    assert len(statements) == 2


def test_a_deep_queue_is_warned_of_once(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    settings.JOBS = {"WARN_DEPTH": 2}
    for _ in range(2):
        enqueue("tests.noop")
    assert caplog.records == []
    for _ in range(3):
        enqueue("tests.noop")
    (record,) = caplog.records
    assert (record.levelname, record.args) == ("WARNING", (3, 2))
    assert "WARN_DEPTH" in record.getMessage()


def test_a_submitter_over_its_rate_is_refused_and_others_are_not(settings: Settings) -> None:
    settings.JOBS = {"SUBMITTER_RATE": 2}

    def enqueue_three() -> None:
        for _ in range(3):
            enqueue("tests.noop", submitter="ada")

    enqueue_many("tests.noop", [{}] * 2, submitter="ada")
    with pytest.raises(RateLimited) as refusal:
        enqueue_three()  # which is too much even when the minute turns just now
    assert (refusal.value.code, refusal.value.submitter, refusal.value.limit) == ("rate_limited", "ada", 2)
    assert 1 <= refusal.value.retry_after <= 60
    enqueue("tests.noop", submitter="eve")
    enqueue("tests.noop")


def test_a_new_minute_is_a_new_allowance(settings: Settings) -> None:
    settings.JOBS = {"SUBMITTER_RATE": 1}
    enqueue("tests.noop", submitter="ada")
    SubmissionWindow.objects.update(minute=F("minute") - timedelta(minutes=1))
    enqueue("tests.noop", submitter="ada")
    assert Job.objects.count() == 2


def test_a_batch_counts_as_many_as_it_holds(settings: Settings) -> None:
    settings.JOBS = {"SUBMITTER_RATE": 10}
    with pytest.raises(RateLimited):
        enqueue_many("tests.noop", [{}] * 11, submitter="ada")
    assert not Job.objects.exists()
    enqueue_many("tests.noop", [{}] * 10, submitter="ada")


def test_what_was_rolled_back_does_not_count_against_the_rate(settings: Settings) -> None:
    settings.JOBS = {"SUBMITTER_RATE": 1}
    for _ in range(3):
        with transaction.atomic():
            enqueue("tests.noop", submitter="ada")
            transaction.set_rollback(True)
    enqueue("tests.noop", submitter="ada")
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_rate_is_exact_under_a_race(settings: Settings) -> None:
    settings.JOBS = {"SUBMITTER_RATE": 5}
    answers = race_outcomes([partial(enqueue, "tests.noop", submitter="ada")] * 12)
    accepted = [answer for answer in answers if isinstance(answer, Job)]
    assert all(isinstance(answer, Job | RateLimited) for answer in answers), answers
    counts = list(SubmissionWindow.objects.values_list("count", flat=True))
    assert sum(counts) == len(accepted) == Job.objects.count()
    assert len(counts) <= 2  # two, when the race met the turn of the minute
    assert max(counts) <= 5
    assert len(counts) == 2 or counts == [5]


def test_a_full_queue_still_knows_the_job_that_has_the_unique_key(settings: Settings) -> None:
    settings.JOBS = {"MAX_DEPTH": 1}
    first = enqueue("tests.noop", unique_key="only")
    again = enqueue("tests.noop", unique_key="only")
    assert (again.pk, again.created) == (first.pk, False)
    with pytest.raises(QueueFull):
        enqueue("tests.noop", unique_key="another")
