"""Seed 002, from the circuit breaker on: inspection, failures, scaling, metrics, configuration."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from functools import partial

import pytest
from django.test import Client
from pytest_django import Settings

from jobs import (
    JobContext,
    RetryLater,
    breaker,
    enqueue,
    enqueue_many,
    lifecycle,
    recovery,
    snapshot,
    statistics,
)
from jobs.models import Attempt, Breaker, Job, Worker
from jobs.testing import run_due_jobs
from tests.acceptance.asking import NO
from tests.conftest import Declare, RunManage
from tests.support.queue.actors import a_dead_process, claim_one, claimed_ids, new_worker, race, stored
from tests.support.queue.breakers import PLAIN, cooldown_over, fail_one, open_breaker, state_of
from tests.support.queue.scraping import TOKEN, parse

pytestmark = pytest.mark.django_db


# -- 8. Circuit Breaker ------------------------------------------------------------------------------------------------


@pytest.fixture
def _charges(declare: Declare, settings: Settings) -> None:
    settings.JOBS = {**settings.JOBS, "BREAKER_FAILURES": 2}
    declare("here.charge", breaker="payments", max_attempts=9)


@pytest.mark.usefixtures("_charges")
def test_a_closed_breaker_lets_calls_through_and_success_resets_its_count() -> None:
    """
    002 · 8. Circuit Breaker · “CLOSED | Calls allowed”
    002 · 8. Circuit Breaker · “Failures (including rate limit) increment, success resets.”
    """
    fail_one()
    enqueue("here.charge")
    lifecycle.complete(claim_one().lease)
    fail_one(failure=lifecycle.FailureReport("RetryLater", "rate limited", retry_in=timedelta(seconds=1)))
    assert (state_of(), Breaker.objects.get().failures) == ("closed", 1)
    fail_one()
    assert state_of() == "open"


@pytest.mark.usefixtures("_charges")
def test_an_open_breaker_denies_calls_until_its_cooldown_has_passed() -> None:
    """
    002 · 8. Circuit Breaker · “Calls denied until `open_cooldown_seconds` elapsed”
    002 · 8. Circuit Breaker · “may preempt network fetch”
    """
    open_breaker()
    job = enqueue("here.charge")
    assert claimed_ids(new_worker()) == []
    with pytest.raises(RetryLater), breaker("payments"):
        raise AssertionError("the call was made")
    cooldown_over()
    assert claimed_ids(new_worker()) == [job.id]


@pytest.mark.usefixtures("_charges")
@pytest.mark.parametrize("ends_well", [True, False])
def test_a_half_open_breaker_lets_a_few_trial_calls_through(settings: Settings, ends_well: bool) -> None:
    """
    002 · 8. Circuit Breaker · “Limited `half_open_probe_count` trial calls”
    """
    settings.JOBS = {**settings.JOBS, "BREAKER_PROBES": 2}
    open_breaker()
    cooldown_over()
    enqueue_many("here.charge", [{}] * 5)
    worker = new_worker()
    trials = lifecycle.claim(worker, 5)
    assert (len(trials), state_of()) == (2, "half-open")
    if ends_well:
        lifecycle.complete(trials[0].lease)
    else:
        lifecycle.fail(trials[0].lease, PLAIN)
    assert state_of() == ("closed" if ends_well else "open")


@pytest.mark.usefixtures("_charges")
@pytest.mark.django_db(transaction=True)
def test_all_processes_share_a_breaker(run_manage: RunManage) -> None:
    """
    002 · 8. Circuit Breaker · “Breaker is process-local (no cross-instance coordination in MVP).”
    002 · 14. Scaling Path · “Distributed breaker”
    Decided: breakers are in the database, shared by the whole fleet.
    """
    open_breaker()
    elsewhere = json.loads(run_manage("jobs", "status", "--json").stdout)
    assert elsewhere["breakers"]["payments"]["state"] == "open"


# -- 9. Queue Item to 12. Worker Exception Tracking --------------------------------------------------------------------


def test_a_job_carries_its_payload_its_times_and_a_correlation_id(declare: Declare) -> None:
    """
    002 · 9. Queue Item · “`QueueItem(job, priority_label, priority_value, enqueued_at, ready_at, seq)`”
    002 · 9. Queue Item · “`ReconciliationJob(affiliate_report_id, priority, scheduled_at, correlation_id)`”
    002 · 9. Queue Item · “`correlation_id` enables request tracing across queue operations”
    """

    def parent(job: JobContext, report: int) -> None:
        job.add("tests.noop", key="child")

    declare("here.parent", parent)
    job = stored(enqueue("here.parent", {"report": 7}, correlation_id="request-1"))
    assert (job.payload, job.priority, job.correlation_id) == ({"report": 7}, 5, "request-1")
    assert job.created_at <= job.run_at
    run_due_jobs()
    assert Job.objects.get(type="tests.noop").correlation_id == "request-1"


def test_purge_empties_the_queue() -> None:
    """
    002 · 10. Test Utilities · “`purge()` clears both heaps (added for test isolation).”
    """
    from jobs.testing import purge

    enqueue("tests.noop")
    enqueue("tests.noop", delay=60)
    lifecycle.fail(claim_one().lease, NO)
    assert purge() == 2
    assert not Job.objects.exists()


def test_a_snapshot_tells_depth_ready_scheduled_and_shutdown() -> None:
    """
    002 · 11. Queue Inspection · “"depth": total_queued_jobs”
    002 · 11. Queue Inspection · “"ready": ready_heap_size”
    002 · 11. Queue Inspection · “"scheduled": scheduled_heap_size”
    002 · 11. Queue Inspection · “"shutdown": shutdown_flag”
    """
    new_worker()
    enqueue_many("tests.noop", [{}] * 3)
    enqueue("tests.noop", delay=60)
    lifecycle.complete(claim_one().lease)
    claim_one()
    said = snapshot()
    assert [said[key] for key in ("depth", "ready", "scheduled", "shutdown")] == [2, 1, 1, False]
    assert (said["processing"], said["completed"]) == (1, 1)
    Worker.objects.update(draining=True)
    assert snapshot()["shutdown"] is True


def test_what_handlers_raise_can_be_asserted_on(declare: Declare) -> None:
    """
    002 · 12. Worker Exception Tracking · “worker exceptions are captured in `LAST_EXCEPTIONS` list”
    002 · 12. Worker Exception Tracking · “"error": str(exception)”
    002 · 12. Worker Exception Tracking · “"type": exception_class_name”
    """
    from jobs.testing import exceptions

    def broken(job: JobContext) -> None:
        raise KeyError("report 7")

    declare("here.broken", broken)
    job = enqueue("here.broken")
    run_due_jobs(raise_errors=False)
    (raised,) = exceptions()
    assert (raised.job_id, raised.type, raised.error) == (job.id, "KeyError", "'report 7'")


# -- 13. Failures, 14. Scaling Path ------------------------------------------------------------------------------------


def test_a_crash_loses_no_job_and_every_attempt_is_kept() -> None:
    """
    002 · 13. Failures · “Worker crash mid-reconciliation”
    002 · 13. Failures · “Add idempotent attempt table / resume mechanism”
    Decided: done: an attempt row for every run, and a lease that ends with its worker.
    """
    job = enqueue("tests.noop")
    claim_one(a_dead_process())
    recovery.sweep()
    lifecycle.complete(claim_one().lease)
    assert stored(job).status == "completed"
    assert list(Attempt.objects.order_by("token").values_list("outcome", flat=True)) == ["lost", "completed"]


def test_a_job_that_fails_for_good_is_kept_and_listed(
    admin_client: Client, declare: Declare, caplog: pytest.LogCaptureFixture
) -> None:
    """
    002 · 13. Failures · “Silent exception consumed”
    002 · 13. Failures · “Dead-letter queue / metrics”
    Decided: failed jobs are the dead letters: kept with every traceback until someone retries or discards them.
    """

    def broken(job: JobContext) -> None:
        raise KeyError("report 7")

    declare("here.broken", broken, max_attempts=1)
    job = enqueue("here.broken")
    run_due_jobs(raise_errors=False)
    (row,) = admin_client.get("/api/jobs?status=failed").json()["jobs"]
    assert (row["id"], row["last_error"]) == (job.id, "KeyError: 'report 7'")
    assert "in broken" in Attempt.objects.get().traceback


@pytest.mark.django_db(transaction=True)
def test_any_number_of_threads_and_processes_take_from_one_queue() -> None:
    """
    002 · 14. Scaling Path · “Add worker pool (ensure DB session per thread)”
    002 · 14. Scaling Path · “Replace with Redis / SQS; adapt enqueue/dequeue interface”
    Decided: neither Redis nor SQS is needed for several processes: the database hands out each job once.
    """
    ids = [str(id) for id in enqueue_many("tests.noop", [{}] * 30)]

    def drain(worker: Worker) -> list[str]:
        mine: list[str] = []
        while batch := claimed_ids(worker, 4):
            mine += batch
        return mine

    shares = race([partial(drain, worker) for worker in [new_worker() for _ in range(3)]])
    assert sorted(id for share in shares for id in share) == sorted(ids)


# -- 15. Instrumentation to 19. Configuration --------------------------------------------------------------------------


def test_every_metric_is_there(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    002 · 15. Instrumentation · “queue_depth”
    002 · 15. Instrumentation · “dequeue_latency_histogram”
    002 · 15. Instrumentation · “job_processing_duration”
    002 · 15. Instrumentation · “job_failures_total”
    002 · 15. Instrumentation · “breaker_state_gauge{platform}”
    """
    monkeypatch.setattr(statistics, "SETTLED_AFTER", 0)
    settings.JOBS = {**settings.JOBS, "METRICS_TOKEN": TOKEN}
    enqueue_many("tests.noop", [{}] * 3, max_attempts=1)
    lifecycle.complete(claim_one().lease)
    lifecycle.fail(claim_one().lease, NO)
    open_breaker("platform")
    statistics.count_minutes()
    said = parse(Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).content.decode())
    assert said["sprocket_queue_jobs", "tests.noop", "pending", "normal"] == 1
    assert said["sprocket_job_wait_seconds_count", "tests.noop"] == 1
    assert said["sprocket_job_run_seconds_count", "tests.noop"] == 2
    assert said["sprocket_failures_total", "tests.noop"] == 1
    assert said["sprocket_breaker_state", "platform", "open"] == 1


def test_only_registered_handlers_run() -> None:
    """
    002 · 16. Security · “controlled adapter modules (no dynamic remote loads)”
    """
    from jobs import UnknownJobType

    with pytest.raises(UnknownJobType):
        enqueue("os.system")
    assert not Job.objects.exists()


def test_a_deep_queue_is_logged(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """
    002 · 19. Configuration · “Logging threshold for backlog”
    """
    settings.JOBS = {**settings.JOBS, "WARN_DEPTH": 1}
    with caplog.at_level(logging.WARNING, logger="jobs.capacity"):
        enqueue("tests.noop")
        assert caplog.records == []
        enqueue("tests.noop")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
