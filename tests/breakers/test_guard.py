"""`with breaker("payments"):` guards a call in a handler and anywhere else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import BreakerOpen, JobContext, PermanentFailure, RetryLater, breaker, database, enqueue
from jobs.breakers import circuits
from jobs.breakers.declarations import LONGEST_NAME
from jobs.exceptions import JobStopped, JobTimeout, LeaseLost
from jobs.models import Breaker, BreakerProbe, Job
from jobs.testing import run_due_jobs
from tests.conftest import Declare
from tests.support.queue.breakers import cooldown_over, open_breaker, state_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _terms(settings: Settings) -> None:
    settings.JOBS = {"BREAKER_FAILURES": 2}


def call(error: BaseException | None = None) -> None:
    with breaker("payments"):
        if error:
            raise error


def failing_call(error: BaseException | None = None) -> None:
    with pytest.raises(type(error) if error else OSError):
        call(error or OSError("no route"))


def test_so_many_errors_in_a_row_open_it_and_the_next_call_is_not_made() -> None:
    failing_call()
    failing_call()
    with pytest.raises(BreakerOpen, match=r"payments.* OSError: no route") as refusal:
        call(AssertionError("this must not run"))
    assert refusal.value.name == "payments"
    assert timedelta(seconds=50) < refusal.value.delay <= timedelta(seconds=60)


def test_a_success_in_between_begins_the_count_anew() -> None:
    failing_call()
    call()
    failing_call()
    assert (state_of(), Breaker.objects.get().failures) == ("closed", 1)


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (RetryLater(5, "rate limited"), True),
        (JobTimeout("too slow"), True),
        (RetryLater(5, counted=False), False),
        (BreakerOpen("another", timedelta(seconds=5)), False),
        (PermanentFailure("no such invoice"), False),
        (LeaseLost("01J"), False),
        (JobStopped("draining"), False),
        (KeyboardInterrupt(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_says_nothing_about_the_service_does_not_count(error: BaseException, counts: bool) -> None:
    for _ in range(2):
        failing_call(error)
    assert state_of() == ("open" if counts else "closed")


def test_a_trial_call_that_succeeds_closes_it() -> None:
    open_breaker()
    cooldown_over()
    call()
    assert state_of() == "closed"


def test_a_trial_call_that_fails_opens_it_again() -> None:
    open_breaker()
    cooldown_over()
    failing_call()
    assert state_of() == "open"
    with pytest.raises(BreakerOpen):
        call()


def test_while_a_trial_call_is_under_way_no_other_goes_through() -> None:
    open_breaker()
    cooldown_over()
    with breaker("payments"), pytest.raises(BreakerOpen) as refusal:
        call()
    assert refusal.value.delay == timedelta(seconds=5)
    assert state_of() == "closed"


def test_a_trial_call_that_ends_without_a_verdict_frees_its_place() -> None:
    open_breaker()
    cooldown_over()
    failing_call(PermanentFailure("no such invoice"))
    assert (state_of(), BreakerProbe.objects.count()) == ("half-open", 0)
    call()
    assert state_of() == "closed"


@pytest.mark.parametrize("by_sweep", [False, True])
def test_a_trial_call_that_never_returns_frees_its_place_when_its_time_is_up(by_sweep: bool) -> None:
    open_breaker()
    cooldown_over()
    never = breaker("payments")
    never.__enter__()
    BreakerProbe.objects.update(expires_at=database.now_minus(timedelta(seconds=1)))
    if by_sweep:
        assert circuits.free_places() == 1
    failing_call()
    assert state_of() == "open"
    never.__exit__(None, None, None)
    assert state_of() == "open"  # it returned after all, too late to decide


def test_a_closed_breaker_costs_one_statement() -> None:
    Breaker.objects.create(name="payments")
    with CaptureQueriesContext(connection) as queries:
        call()
    assert len(queries) == 1


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=str(LONGEST_NAME)), breaker(""):
        pass


# -- inside a handler --------------------------------------------------------------------------------------------------


def test_a_handler_that_is_not_let_through_is_put_off_without_losing_an_attempt(declare: Declare) -> None:
    open_breaker()
    declare("here.calls", lambda job: call())
    enqueue("here.calls")
    run_due_jobs()
    job: Any = Job.objects.get()
    assert (job.status, job.attempt_number) == ("waiting", 0)
    assert job.run_at > database.read_clock() + timedelta(seconds=50)
    assert state_of() == "open"


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_call_that_fails_inside_a_job_of_the_same_breaker_counts_once(
    declare: Declare, wrapped: bool
) -> None:
    def handler(job: JobContext) -> None:
        try:
            call(OSError("no route"))
        except OSError as error:
            if not wrapped:
                raise
            raise RuntimeError("charging failed") from error

    declare("here.charge", handler, breaker="payments")
    enqueue("here.charge")
    run_due_jobs(raise_errors=False)
    assert Breaker.objects.get().failures == 1


def test_calls_inside_a_trial_job_need_no_place_of_their_own(declare: Declare) -> None:
    declare("here.charge", lambda job: call(), breaker="payments")
    open_breaker()
    cooldown_over()
    enqueue("here.charge")
    [run] = run_due_jobs()
    assert run.status == "completed"
    assert state_of() == "closed"
    assert not BreakerProbe.objects.exists()
