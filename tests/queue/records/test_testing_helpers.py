"""jobs.testing: a host site's tests run jobs inline and look at what was enqueued."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import TestCase
from pytest_django import Settings

from jobs import (
    HIGH,
    LOW,
    JobContext,
    PermanentFailure,
    QueueFull,
    RetryLater,
    cancel,
    enqueue,
    enqueue_many,
    testing,
    workflow,
)
from jobs.models import Attempt, Event, Job, JobTypeState, SubmissionWindow, Worker, Workflow
from jobs.testing import (
    HandlerFailed,
    assert_enqueued,
    assert_not_enqueued,
    exceptions,
    purge,
    run_due_jobs,
)
from tests.conftest import Declare, RunManage
from tests.support.queue.actors import claim_one
from tests.support.queue.workers import QUICK


class InADjangoTestCase(TestCase):
    """The helpers live in the transaction of the test case and leave it as they found it."""

    def test_a_due_job_runs_and_the_connection_stays_open(self) -> None:
        before = connection.connection
        job = enqueue("tests.noop")
        (run,) = run_due_jobs()
        assert (run.id, run.type, run.attempt, run.status) == (job.id, "tests.noop", 1, "completed")
        assert connection.connection is before
        assert connection.in_atomic_block
        assert Job.objects.get().status == "completed"

    def test_nothing_is_left_of_the_other_test(self) -> None:
        assert Job.objects.count() == 0
        assert run_due_jobs() == []

    def test_the_throw_away_worker_is_gone_and_remembered_in_the_attempt(self) -> None:
        enqueue("tests.noop")
        run_due_jobs()
        assert Worker.objects.count() == 0
        assert Attempt.objects.get().worker_name.startswith("run_due_jobs-")

    def test_enqueued_jobs_are_found_by_type_and_arguments(self) -> None:
        enqueue("tests.noop", log="a")
        later = enqueue("tests.noop", log="b", delay=60, priority=HIGH)
        found = assert_enqueued("tests.noop", log="b")
        assert (found.id, found.priority) == (later.id, HIGH)
        assert_not_enqueued("tests.noop", log="c")
        assert_not_enqueued("demo.count")


pytestmark = pytest.mark.django_db


def test_the_result_comes_back(declare: Declare) -> None:
    declare("tests.double", lambda job, n: {"twice": 2 * n})
    enqueue("tests.double", n=21)
    assert [run.result for run in run_due_jobs()] == [{"twice": 42}]


def test_urgent_jobs_run_first(declare: Declare) -> None:
    seen: list[str] = []
    declare("tests.see", lambda job, what: seen.append(what))
    enqueue("tests.see", what="low", priority=LOW)
    enqueue("tests.see", what="normal")
    enqueue("tests.see", what="high", priority=HIGH)
    run_due_jobs()
    assert seen == ["high", "normal", "low"]


def test_children_and_follow_ups_run_in_the_same_call(declare: Declare) -> None:
    def parent(job: JobContext) -> None:
        job.add("tests.noop")
        enqueue("tests.noop")

    declare("tests.parent", parent)
    enqueue("tests.parent")
    assert [run.type for run in run_due_jobs()] == ["tests.parent", "tests.noop", "tests.noop"]


def test_a_workflow_runs_in_order(declare: Declare) -> None:
    seen: list[str] = []
    declare("tests.see", lambda job, what: seen.append(what))
    with workflow("import") as flow:
        fetch = flow.add("tests.see", what="fetch", priority=LOW)
        flow.add("tests.see", what="publish", after=[fetch], priority=HIGH)
    run_due_jobs()
    assert seen == ["fetch", "publish"]


def test_the_limit_stops_quietly() -> None:
    enqueue_many("tests.noop", [{}, {}, {}])
    assert len(run_due_jobs(limit=2)) == 2
    assert Job.objects.pending().count() == 1


def test_a_job_that_enqueues_itself_for_ever_is_named(
    declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "RUNAWAY", 5)
    declare("tests.again", lambda job: enqueue("tests.again").id)
    enqueue("tests.again")
    with pytest.raises(AssertionError, match=r"\b5\b.*tests\.again"):
        run_due_jobs()


def test_delayed_jobs_stay_waiting_unless_the_test_looks_ahead() -> None:
    soon = enqueue("tests.noop", delay=timedelta(minutes=5))
    sooner = enqueue("tests.noop", delay=timedelta(minutes=1))
    enqueue("tests.noop", delay=timedelta(days=1))
    assert run_due_jobs() == []
    assert [run.id for run in run_due_jobs(ahead=timedelta(minutes=10))] == [sooner.id, soon.id]
    assert Job.objects.get(status="waiting").attempt_number == 0


def test_a_failing_handler_fails_the_test_with_its_traceback(declare: Declare) -> None:
    def broken(job: JobContext) -> None:
        raise ValueError("no such podcast")

    declare("tests.broken", broken)
    enqueue("tests.broken")
    with pytest.raises(HandlerFailed, match=r"in broken\n[^$]*ValueError: no such podcast"):
        run_due_jobs()
    job = Job.objects.get()
    assert (job.status, job.last_error) == ("waiting", "ValueError: no such podcast")


def test_a_failure_can_be_what_the_test_is_about(declare: Declare) -> None:
    def broken(job: JobContext) -> None:
        raise ValueError(f"attempt {job.attempt}")

    declare("tests.broken", broken, max_attempts=2)
    enqueue("tests.broken")
    (first,) = run_due_jobs(raise_errors=False)
    assert (first.status, first.error) == ("waiting", "ValueError: attempt 1")
    (second,) = run_due_jobs(raise_errors=False, ahead=timedelta(hours=1))
    assert (second.status, second.error) == ("failed", "ValueError: attempt 2")


def test_a_permanent_failure_ends_the_job_at_once(declare: Declare) -> None:
    def broken(job: JobContext) -> None:
        raise PermanentFailure("gone")

    declare("tests.broken", broken)
    enqueue("tests.broken")
    assert [run.status for run in run_due_jobs(raise_errors=False)] == ["failed"]


def test_retry_later_is_no_error(declare: Declare) -> None:
    def patient(job: JobContext) -> str:
        if job.attempt == 1:
            raise RetryLater(60)
        return "done"

    declare("tests.patient", patient)
    enqueue("tests.patient")
    runs = run_due_jobs(ahead=timedelta(minutes=2))
    assert [(run.attempt, run.status) for run in runs] == [(1, "waiting"), (2, "completed")]


def test_a_failed_statement_spoils_the_handler_only(declare: Declare) -> None:
    def clumsy(job: JobContext) -> None:
        Group.objects.create(name="twice")
        Group.objects.create(name="twice")

    declare("tests.clumsy", clumsy)
    enqueue("tests.clumsy")
    (run,) = run_due_jobs(raise_errors=False)
    assert run.error.startswith("IntegrityError")
    enqueue("tests.noop")
    assert [run.status for run in run_due_jobs()] == ["completed"]


def test_what_a_handler_wrote_before_it_raised_stays(declare: Declare) -> None:
    def half(job: JobContext) -> None:
        Group.objects.create(name="written")
        raise ValueError("then this")

    declare("tests.half", half)
    enqueue("tests.half")
    run_due_jobs(raise_errors=False)
    assert Group.objects.filter(name="written").exists()


def test_callbacks_on_commit_run_when_the_handler_has_ended(declare: Declare) -> None:
    seen: list[str] = []

    def handler(job: JobContext) -> None:
        transaction.on_commit(lambda: seen.append("after"))
        seen.append("handler")

    transaction.on_commit(lambda: seen.append("the test's own"))
    declare("tests.callbacks", handler)
    enqueue("tests.callbacks")
    run_due_jobs()
    assert seen == ["handler", "after"]


@pytest.mark.django_db(transaction=True)
def test_without_an_enclosing_transaction_it_works_as_well(declare: Declare) -> None:
    declare("tests.parent", lambda job: job.add("tests.noop").id)
    enqueue("tests.parent")
    assert [run.status for run in run_due_jobs()] == ["completed", "completed"]
    assert not connection.in_atomic_block


def test_capabilities_are_no_obstacle_but_a_paused_type_is(declare: Declare) -> None:
    declare("tests.on_gpu", requires=["gpu"])
    declare("tests.paused")
    JobTypeState.objects.create(name="tests.paused", paused=True)
    enqueue("tests.on_gpu")
    enqueue("tests.paused")
    assert [run.type for run in run_due_jobs()] == ["tests.on_gpu"]


def test_progress_is_stored_and_a_handler_may_cancel_its_own_job(declare: Declare) -> None:
    def handler(job: JobContext) -> None:
        job.progress(40, step="half way")
        cancel(job.id)

    declare("tests.cancels_itself", handler)
    enqueue("tests.cancels_itself")
    (run,) = run_due_jobs()
    job = Job.objects.get()
    assert (run.status, job.progress_percent, job.current_step) == ("cancelled", 40, "half way")


def test_a_missing_job_is_reported_with_what_is_there() -> None:
    with pytest.raises(AssertionError, match=r"tests\.noop\(\)") as failure:
        assert_enqueued("tests.noop")
    assert len(str(failure.value).splitlines()) == 1
    enqueue("tests.noop", log="a", delay=5)
    with pytest.raises(AssertionError) as failure:
        assert_enqueued("tests.noop", {"log": "b"})
    wanted, there = str(failure.value).splitlines()
    assert "tests.noop(log='b')" in wanted
    assert there == "  tests.noop(log='a') waiting"


def test_an_unwanted_job_is_reported_and_jobs_that_have_run_are_not_in_the_queue() -> None:
    enqueue("tests.noop")
    with pytest.raises(AssertionError, match=r"\b1\b.*tests\.noop\(\).*\n  tests\.noop\(\) pending$"):
        assert_not_enqueued("tests.noop")
    run_due_jobs()
    assert_not_enqueued("tests.noop")


# -- what has been raised, and an empty queue --------------------------------------------------------------------------


def test_what_handlers_have_raised_is_kept_for_the_test(declare: Declare) -> None:
    def broken(job: JobContext) -> None:
        raise KeyError("colour")

    def not_yet(job: JobContext) -> None:
        raise RetryLater(60, "not yet", counted=False)

    declare("tests.broken", broken, max_attempts=2)
    declare("tests.not_yet", not_yet)
    job, other = enqueue("tests.broken"), enqueue("tests.not_yet")
    enqueue("tests.noop")
    cancel(enqueue("tests.noop").id)
    run_due_jobs(raise_errors=False, ahead=timedelta(hours=1), limit=4)
    first, *_ = raised = exceptions("tests.broken")
    assert [(each.job_id, each.attempt, each.type, each.error) for each in raised] == [
        (job.id, 1, "KeyError", "'colour'"),
        (job.id, 2, "KeyError", "'colour'"),
    ]
    assert first.job_type == "tests.broken"
    assert "in broken" in first.traceback
    assert {each.job_id for each in exceptions()} == {job.id, other.id}
    purge()
    assert exceptions() == []


@pytest.mark.django_db(transaction=True)
def test_what_a_real_worker_ran_is_seen_and_purged(run_manage: RunManage, log: str) -> None:
    job = enqueue("work.fail", log=log, max_attempts=1)
    run_manage("runworker", "--drain", env=QUICK)
    (raised,) = exceptions()
    assert (raised.job_id, raised.type, raised.error) == (job.id, "RuntimeError", "attempt 1 fails")
    assert purge() == 1
    assert not Attempt.objects.exists()


def test_purge_empties_the_queue_whatever_is_in_it(settings: Settings, declare: Declare) -> None:
    settings.JOBS = {"MAX_DEPTH": 5, "SUBMITTER_RATE": 5}
    declare("tests.paused")
    JobTypeState.objects.create(name="tests.paused", paused=True)
    with workflow("w") as flow:
        flow.add("tests.noop", after=[flow.add("tests.noop")])
    claimed = claim_one()
    enqueue("tests.noop", delay=60, submitter="ada")
    cancel(enqueue("tests.noop").id)
    enqueue_many("tests.noop", [{}] * 2)
    with pytest.raises(QueueFull):
        enqueue("tests.noop")
    assert purge() == 6
    for model in (Job, Attempt, Event, Workflow, SubmissionWindow):
        assert not model._default_manager.exists(), model
    assert Worker.objects.filter(pk=claimed.lease.worker_id).exists()
    assert JobTypeState.objects.filter(name="tests.paused", paused=True).exists()
    enqueue_many("tests.noop", [{}] * 5, submitter="ada")
    assert purge() == 5
