"""Job types that depend on a breaker: what opens it, what it keeps back, what closes it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import database, enqueue, enqueue_many, lifecycle
from jobs.breakers import circuits, rules
from jobs.breakers.declarations import LONGEST_NAME, declare_breaker, terms_of
from jobs.invariants import RULES, broken_rules
from jobs.lifecycle import FailureReport
from jobs.models import Breaker, BreakerProbe, Job
from jobs.signals import BreakerChange, breaker_changed
from tests.conftest import Declare
from tests.support.queue.actors import claim_one, claimed_ids, new_worker, status_of
from tests.support.queue.breakers import PLAIN, cooldown_over, fail_one, open_breaker, state_of
from tests.support.queue.constraints import undone, without_constraints

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _types(declare: Declare, settings: Settings) -> None:
    declare("here.charge", breaker="payments")
    declare("here.refund", breaker="payments")
    declare("here.free")
    settings.JOBS = {"BREAKER_FAILURES": 3}


def test_so_many_failures_in_a_row_open_it_and_its_jobs_stay_unclaimed() -> None:
    for _ in range(2):
        fail_one()
    assert state_of() == "closed"
    fail_one()
    row = Breaker.objects.get()
    assert (row.state, row.failures, row.reason) == ("open", 3, "ConnectionError: no answer")
    assert row.retry_at is not None
    assert row.retry_at > row.since
    kept = [enqueue("here.charge").id, enqueue("here.refund").id]
    free = enqueue("here.free").id
    assert claimed_ids(new_worker(), 10) == [free]
    assert {status_of(job) for job in kept} == {"pending"}
    assert set(Job.objects.filter(pk__in=kept).values_list("attempt_number", flat=True)) == {0}


def test_failures_of_all_types_that_name_it_count_together() -> None:
    for type_name in ("here.charge", "here.refund", "here.charge"):
        fail_one(type_name)
    assert state_of() == "open"


def test_a_success_in_between_begins_the_count_anew() -> None:
    for _ in range(2):
        fail_one()
    enqueue("here.refund")
    lifecycle.complete(claim_one().lease)
    for _ in range(2):
        fail_one()
    assert state_of() == "closed"


@pytest.mark.parametrize(
    ("failure", "counts"),
    [
        (FailureReport("RetryLater", "rate limited", retry_in=timedelta(seconds=9)), True),
        (FailureReport("JobTimeout", "too slow"), True),
        (FailureReport("ValueError", "no such invoice", permanent=True), False),
        (FailureReport("RetryLater", "wrong worker", retry_in=timedelta(seconds=9), counted=False), False),
    ],
    ids=["rate limit", "timeout", "about its own payload", "not counted"],
)
def test_rate_limits_and_timeouts_count_and_what_is_about_the_job_does_not(
    failure: FailureReport, counts: bool
) -> None:
    for _ in range(3):
        fail_one(failure=failure)
    assert state_of() == ("open" if counts else "closed")


def test_neither_a_lost_worker_nor_a_cancelled_or_released_job_counts() -> None:
    for _ in range(4):
        worker = new_worker()
        enqueue_many("here.charge", [{}] * 3)
        lost, released, cancelled = lifecycle.claim(worker, 3)
        lifecycle.release([released.lease])
        lifecycle.cancel(cancelled.lease.job_id)
        lifecycle.recover_lost(worker.pk, "it died")
        lifecycle.cancel(lost.lease.job_id)
        lifecycle.cancel(released.lease.job_id)
    assert not Breaker.objects.exists()


def test_after_the_cooldown_one_trial_job_goes_through_and_its_success_closes_it() -> None:
    open_breaker()
    enqueue_many("here.charge", [{}] * 3)
    worker = new_worker()
    assert claimed_ids(worker, 3) == []
    cooldown_over()
    trial = claim_one(worker).lease
    assert state_of() == "half-open"
    assert claimed_ids(worker, 3) == []
    lifecycle.complete(trial)
    assert state_of() == "closed"
    assert not BreakerProbe.objects.exists()
    assert len(claimed_ids(worker, 3)) == 2


def test_a_trial_job_that_fails_opens_it_again_for_a_whole_cooldown() -> None:
    open_breaker()
    enqueue_many("here.charge", [{}] * 2)
    cooldown_over()
    lifecycle.fail(claim_one().lease, PLAIN)
    row = Breaker.objects.get()
    assert (row.state, row.failures) == ("open", 6)
    assert claimed_ids(new_worker(), 2) == []
    assert not BreakerProbe.objects.exists()


@pytest.mark.parametrize("probes", [1, 2, 3])
def test_the_places_are_shared_by_all_types_of_the_breaker(probes: int, settings: Settings) -> None:
    settings.JOBS = {"BREAKER_PROBES": probes}
    open_breaker()
    cooldown_over()
    enqueue_many("here.charge", [{}] * 2)
    enqueue_many("here.refund", [{}] * 2)
    worker = new_worker()
    trials = [job for _ in range(4) for job in claimed_ids(worker, 4)]
    assert len(trials) == probes == BreakerProbe.objects.count()


@pytest.mark.parametrize("end", ["fail for good", "put off", "release", "cancel", "recover"])
def test_a_trial_that_says_nothing_about_the_service_frees_its_place(end: str) -> None:
    open_breaker()
    cooldown_over()
    jobs = enqueue_many("here.charge", [{}] * 2)
    worker = new_worker()
    trial = claim_one(worker).lease
    match end:
        case "fail for good":
            lifecycle.fail(trial, FailureReport("ValueError", "no such invoice", permanent=True))
        case "put off":
            lifecycle.fail(trial, FailureReport("RetryLater", "not now", counted=False))
        case "release":
            lifecycle.release([trial])
        case "cancel":
            lifecycle.cancel(trial.job_id)
        case _:
            lifecycle.recover_lost(worker.pk, "it died")
    assert state_of() == "half-open"
    assert claim_one(new_worker()).lease.job_id in jobs
    assert BreakerProbe.objects.count() == 1


def test_jobs_that_began_before_it_opened_decide_nothing_when_they_return() -> None:
    enqueue_many("here.charge", [{}] * 3)
    good, bad, third = lifecycle.claim(new_worker(), 3)
    open_breaker()
    lifecycle.complete(good.lease)
    assert state_of() == "open"
    cooldown_over()
    enqueue("here.charge")
    trial = claim_one().lease
    lifecycle.fail(bad.lease, PLAIN)
    lifecycle.complete(third.lease)
    assert state_of() == "half-open"
    lifecycle.complete(trial)
    assert state_of() == "closed"


def test_the_terms_of_a_breaker_are_declared_or_those_of_the_settings(settings: Settings) -> None:
    settings.JOBS = {"BREAKER_FAILURES": 7, "BREAKER_PROBES": 2}
    assert (terms_of("here.own").failures, terms_of("here.own").probes) == (7, 2)
    declare_breaker("here.own", failures=2, cooldown=timedelta(seconds=5))
    own = terms_of("here.own")
    assert (own.failures, own.cooldown, own.probes) == (2, timedelta(seconds=5), 2)


@pytest.mark.parametrize(
    ("name", "terms", "said"),
    [
        ("", {}, str(LONGEST_NAME)),
        ("x" * 101, {}, str(LONGEST_NAME)),
        ("here.odd", {"failures": 0}, "here.odd.*failures"),
        ("here.odd", {"probes": -1}, "here.odd.*probes"),
        ("here.odd", {"cooldown": timedelta(0)}, "here.odd.*cooldown"),
        ("here.odd", {"probe_timeout": 5}, "here.odd.*probe_timeout"),
    ],
)
def test_terms_that_make_no_sense_are_refused(name: str, terms: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        declare_breaker(name, **terms)


def test_a_reset_closes_it_at_once_and_says_which_were_open() -> None:
    open_breaker()
    open_breaker("mail", state="closed", failures=0, retry_at=None)
    enqueue("here.charge")
    assert circuits.reset(["payments", "mail", "unheard-of"]) == ["payments"]
    assert state_of() == "closed"
    assert len(claimed_ids(new_worker())) == 1


def test_every_change_of_state_is_told() -> None:
    told: list[str] = []

    def listen(change: BreakerChange, **kwargs: Any) -> None:
        told.append(f"{change.before} → {change.after}: {change.reason}")

    breaker_changed.connect(listen)
    try:
        for _ in range(3):
            fail_one()
        cooldown_over()
        lifecycle.complete(_next_trial())
    finally:
        breaker_changed.disconnect(listen)
    why = "ConnectionError: no answer"
    assert told == [f"closed → open: {why}", f"open → half-open: {why}", f"half-open → closed: {why}"]


def _next_trial() -> lifecycle.Lease:
    enqueue("here.charge", priority=-100)
    return claim_one().lease


def statements(worker: Any, n: int = 1) -> int:
    with CaptureQueriesContext(connection) as queries:
        lifecycle.claim(worker, n)
    return len(queries)


def test_a_breaker_costs_a_claim_no_statement_unless_it_is_half_open() -> None:
    worker = new_worker()
    enqueue_many("here.free", [{}] * 2)
    free = statements(worker)
    enqueue_many("here.charge", [{}] * 4, priority=-1)
    assert statements(worker) == free
    open_breaker()
    assert statements(worker) == free  # it takes the other job without a breaker
    assert Job.objects.filter(type="here.free", status="processing").count() == 2


def test_the_completion_of_a_batch_costs_types_without_a_breaker_nothing_and_others_one_statement() -> None:
    counts = []
    for type_name in ("here.free", "here.charge"):
        enqueue_many(type_name, [{}] * 20)
        claimed = lifecycle.claim(new_worker(), 20)
        with CaptureQueriesContext(connection) as queries:
            assert lifecycle.complete_many([(job.lease, None) for job in claimed]) == set()
        counts.append(len(queries))
    assert counts[1] == counts[0] + 1


def test_the_rules_of_breakers_are_shown_to_fail() -> None:
    open_breaker()
    with without_constraints():
        Breaker.objects.update(retry_at=None)
        assert [RULES[violation.rule] for violation in broken_rules()] == [rules._states]
    with undone():
        BreakerProbe.objects.create(breaker="payments", expires_at=database.now_plus(timedelta(minutes=1)))
        assert [RULES[violation.rule] for violation in broken_rules()] == [rules._stray_probes]
    assert broken_rules() == []
