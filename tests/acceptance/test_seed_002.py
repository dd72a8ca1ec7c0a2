"""Seed 002, up to the worker: order, priorities, delays, capacity."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from jobs import (
    HIGH,
    LOW,
    NORMAL,
    EnqueueRefused,
    JobContext,
    QueueFull,
    RateLimited,
    RetryLater,
    database,
    enqueue,
    enqueue_many,
    lifecycle,
    orchestrator,
    recovery,
)
from jobs.models import Job, Worker
from jobs.testing import run_due_jobs
from tests.acceptance.asking import NO
from tests.conftest import Declare, StartManage
from tests.jobapp.notes import read_notes
from tests.support.pages.videos_api_client import upload
from tests.support.processes import wait_until
from tests.support.queue.actors import age, claim_one, claimed_ids, new_worker, stored
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db


# -- 1. Goals, 2. Data Structures --------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_enqueueing_does_not_run_the_job() -> None:
    """
    002 · 1. Goals · “Decouple ingestion from reconciliation”
    002 · 1. Goals · “In-memory priority + delay queue”
    002 · 1. Goals · “Single thread worker, process-local state”
    Decided: the queue is in the database, so a restart loses nothing and any number of processes share it.
    """
    job = enqueue("tests.noop")
    assert (stored(job).status, stored(job).attempt_number) == ("pending", 0)


def test_the_most_urgent_job_comes_first_and_among_equals_the_oldest() -> None:
    """
    002 · 1. Goals · “Control ordering & urgency”
    002 · 2. Data Structures · “`_ready_heap: [(priority_value, seq, QueueItem)]`”
    002 · 2. Data Structures · “provides FIFO ordering within same priority & timestamp”
    002 · 4. Dequeue Path · “pop lowest priority_value (higher logical priority) then earliest seq”
    002 · 5. Priority Semantics · “Lower numeric value = higher priority.”
    """
    priorities = (LOW, NORMAL, 99, HIGH, NORMAL, LOW, HIGH, 3)
    jobs = [(priority, enqueue("tests.noop", priority=priority).id) for priority in priorities]
    in_order = [id for _, id in sorted(jobs, key=lambda job: job[0])]
    assert claimed_ids(new_worker(), 8) == in_order


def test_a_scheduled_job_waits_apart_and_holds_nobody_up() -> None:
    """
    002 · 1. Goals · “Support scheduled retries”
    002 · 1. Goals · “Two-heap strategy separating ready vs future jobs”
    002 · 2. Data Structures · “`_scheduled_heap: [(ready_at_ts, priority_value, seq, QueueItem)]`”
    002 · 13. Failures · “Starvation by future high priority item”
    """
    future = enqueue("tests.noop", priority=HIGH, delay=3600)
    now = enqueue("tests.noop", priority=LOW)
    assert (stored(future).status, stored(now).status) == ("waiting", "pending")
    assert claimed_ids(new_worker(), 2) == [now.id]


def test_a_low_priority_waits_a_bounded_time() -> None:
    """
    002 · 1. Goals · “Avoid starvation”
    Decided: two heaps alone do not prevent it; a job that has waited for five minutes gets a share (one in four) of
    all claims whatever its priority.
    """
    old = enqueue("tests.noop", priority=LOW)
    age([old.id], 301)
    enqueue_many("tests.noop", [{}] * 40, priority=HIGH)
    assert old.id in claimed_ids(new_worker(), 4)


@pytest.mark.django_db(transaction=True)
def test_an_idle_worker_sleeps_and_is_woken(start_manage: StartManage) -> None:
    """
    002 · 2. Data Structures · “wait for new items or scheduled items becoming ready without busy polling”
    002 · 3. Enqueue Path · “Notify condition variable.”
    002 · 4. Dequeue Path · “compute wait time until next scheduled item (or indefinite wait) and condition wait”
    002 · 7. Worker Thread Model · “Blocking dequeue with timeout to avoid indefinite waits”
    002 · 17. Normal Flow · “enqueue report #101 (priority=normal)”
    002 · 17. Normal Flow · “worker dequeues #101”
    002 · 17. Normal Flow · “queue empty → blocking wait”
    002 · 18. Delayed Retry · “promotes at ready_at”
    """
    worker = start_manage("runworker")
    wait_for_worker(worker)
    for delay in (None, 0.3):
        done = wait_for_status(enqueue("tests.noop", delay=delay), "completed")
        assert done.started_at is not None
        assert done.started_at >= done.run_at


# -- 3. Enqueue Path, 4. Dequeue Path ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("delay", "status"), [(None, "pending"), (0, "pending"), (60, "waiting")])
def test_a_delay_decides_whether_a_job_is_ready(delay: float | None, status: str) -> None:
    """
    002 · 3. Enqueue Path · “Compute `ready_at = now + delay_seconds`.”
    002 · 3. Enqueue Path · “If `ready_at <= now` push to `_ready_heap`; else to `_scheduled_heap`.”
    002 · 3. Enqueue Path · “Assign sequence id.”
    """
    job = stored(enqueue("tests.noop", delay=delay))
    assert job.status == status
    assert (delay or 0) - 30 < (job.run_at - database.read_clock()).total_seconds() <= (delay or 0)
    assert enqueue("tests.noop").id > job.id


def test_what_is_no_priority_is_refused() -> None:
    """
    002 · 3. Enqueue Path · “Priority existence check.”
    """
    with pytest.raises((EnqueueRefused, ValueError), match="urgent"):
        enqueue("tests.noop", priority="urgent")  # type: ignore[arg-type, unused-ignore]
    assert not Job.objects.exists()


def test_a_full_queue_refuses(settings: Settings) -> None:
    """
    002 · 3. Enqueue Path · “Capacity check vs `QUEUE_SETTINGS.max_in_memory`.”
    002 · 13. Failures · “Capacity guard”
    002 · 19. Configuration · “QUEUE_SETTINGS.max_in_memory”
    """
    settings.JOBS = {**settings.JOBS, "MAX_DEPTH": 2}
    enqueue_many("tests.noop", [{}] * 2)
    with pytest.raises(QueueFull) as refusal:
        enqueue("tests.noop")
    assert (refusal.value.code, refusal.value.depth, refusal.value.limit) == ("queue_full", 2, 2)
    assert Job.objects.count() == 2


def test_a_full_queue_is_answered_with_429(
    videos_root: Path, settings: Settings, admin_client: Client
) -> None:
    """
    002 · 13. Failures · “Backpressure signal to API (429)”
    """
    settings.JOBS = {**settings.JOBS, "MAX_DEPTH": 1}
    enqueue("tests.noop")
    answer = upload(admin_client)
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0


def test_workers_that_shut_down_take_nothing_new() -> None:
    """
    002 · 3. Enqueue Path · “Shutdown guard.”
    Decided: jobs are still accepted, since they are kept for the next worker; a worker that drains claims none.
    """
    worker = new_worker()
    Worker.objects.update(draining=True)
    job = enqueue("tests.noop")
    assert (claimed_ids(worker), stored(job).status) == ([], "pending")


def test_what_is_due_is_promoted() -> None:
    """
    002 · 4. Dequeue Path · “Promote all scheduled items whose `ready_at <= now` into ready heap.”
    """
    due, later = enqueue("tests.noop", delay=60), enqueue("tests.noop", delay=60)
    Job.objects.filter(pk=due.pk).update(run_at=database.now_minus(timedelta(seconds=1)))
    assert orchestrator.promote_due() == 1
    assert (stored(due).status, stored(later).status) == ("pending", "waiting")


def test_an_empty_queue_gives_nothing() -> None:
    """
    002 · 4. Dequeue Path · “Exit returning `None` only on timeout or after shutdown + empty.”
    Decided: a claim never blocks; it gives an empty list, and the worker waits by itself.
    """
    assert claimed_ids(new_worker(), 5) == []


# -- 5. Priority Semantics, 6. Delay -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("label", "value"), [("high", 0), ("normal", 5), ("low", 10)])
def test_priorities_have_labels(label: str, value: int) -> None:
    """
    002 · 5. Priority Semantics · “high | 0”
    002 · 5. Priority Semantics · “normal | 5”
    002 · 5. Priority Semantics · “low | 10”
    002 · 1. Goals · “Named priority labels mapping to numeric weights”
    """
    assert stored(enqueue("tests.noop", priority=label)).priority == value  # type: ignore[arg-type, unused-ignore]


def test_the_labels_are_a_setting(settings: Settings) -> None:
    """
    002 · 5. Priority Semantics · “Example mapping (configure in `QUEUE_SETTINGS.priorities`)”
    002 · 19. Configuration · “Mapping label→int priority”
    """
    settings.JOBS = {**settings.JOBS, "PRIORITIES": {"high": 0, "normal": 5, "low": 10, "backfill": 50}}
    assert stored(enqueue("tests.noop", priority="backfill")).priority == 50  # type: ignore[arg-type, unused-ignore]


def test_a_job_is_normal_unless_told_otherwise() -> None:
    """
    002 · 5. Priority Semantics · “Current system enqueues all submissions as `normal`”
    """
    assert stored(enqueue("tests.noop")).priority == NORMAL


def test_priority_can_change_while_a_job_waits(admin_client: Client) -> None:
    """
    002 · 5. Priority Semantics · “future suspicion scoring can upgrade priority (e.g., extreme CTR) before enqueue”
    002 · 14. Scaling Path · “Dynamic priority”
    Decided: any integer is a priority, chosen at enqueue and changed later, as long as the job has not started.
    """
    first, second = enqueue("tests.noop"), enqueue("tests.noop")
    lifecycle.change_priority(second.id, -7)
    assert claimed_ids(new_worker(), 2) == [second.id, first.id]


def test_a_handler_chooses_when_to_try_again(declare: Declare) -> None:
    """
    002 · 6. Delay / Scheduling · “Backoff after platform rate limit”
    002 · 6. Delay / Scheduling · “Could compute adaptive delay”
    """

    def limited(job: JobContext) -> None:
        raise RetryLater(1000, "rate limited")

    declare("here.limited", limited)
    job = enqueue("here.limited")
    run_due_jobs()
    assert 940 < (stored(job).run_at - database.read_clock()).total_seconds() <= 1000


def test_a_failed_attempt_is_scheduled_again_by_the_queue_itself() -> None:
    """
    002 · 6. Delay / Scheduling · “Retry missing data”
    002 · 6. Delay / Scheduling · “Presently, the queue itself does not auto-reschedule retries”
    002 · 18. Delayed Retry · “Attempt 1 missing -> scheduled_retry_at = now + 30m (NOT auto-enqueued yet)”
    002 · 18. Delayed Retry · “Worker processes attempt 2”
    Decided: it does, with exponential backoff kept in `run_at`; no external scheduler is needed.
    """
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, NO)
    assert (stored(job).status, stored(job).run_at > database.read_clock()) == ("waiting", True)
    Job.objects.update(run_at=database.now_minus(timedelta(seconds=1)))
    recovery.sweep()
    assert claim_one().attempt == 2


def test_a_submitter_is_throttled(settings: Settings) -> None:
    """
    002 · 6. Delay / Scheduling · “Throttling low-trust affiliates”
    002 · 16. Security · “implement rate limiting per affiliate (future)”
    """
    settings.JOBS = {**settings.JOBS, "SUBMITTER_RATE": 2}

    def six() -> None:
        for _ in range(6):  # the minute may turn once
            enqueue("tests.noop", submitter="ada")

    with pytest.raises(RateLimited) as refusal:
        six()
    assert refusal.value.submitter == "ada"
    enqueue("tests.noop", submitter="eve")


# -- 7. Worker Thread Model --------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_worker_survives_a_failing_job_uses_fresh_connections_and_drains(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    """
    002 · 7. Worker Thread Model · “Single daemon thread with configurable poll timeout (default 5.0s)”
    002 · 7. Worker Thread Model · “Exceptions caught at worker layer with structured logging”
    002 · 7. Worker Thread Model · “Graceful shutdown via stop event; worker exits when queue empty”
    002 · 7. Worker Thread Model · “Fresh SQLAlchemy session per job with proper cleanup in finally block”
    Decided: a worker has slots (`--concurrency`), each a thread; on SIGTERM it finishes what it runs and leaves the
    rest in the queue, which is kept.
    """
    worker = start_manage("runworker", env={**QUICK, "LOG_FORMAT": "json"})
    wait_for_worker(worker)
    failing = enqueue("work.fail", {"log": log}, max_attempts=1)
    wait_for_status(failing, "failed")
    wait_until(lambda: failing.id in worker.read_output())
    lines = [json.loads(line) for line in worker.read_output().splitlines() if failing.id in line]
    assert any(line["job_id"] == failing.id for line in lines)
    for _ in range(2):
        wait_for_status(enqueue("work.use_database", {"log": log}), "completed")
    marks = [note["connection"] for note in read_notes(log) if "connection" in note]
    assert marks == ["", ""] or len(set(marks)) == 2
    held = enqueue("work.hold", {"log": log, "gate": str(gate)})
    wait_until(lambda: read_notes(log, "started"))
    worker.terminate()
    wait_until(lambda: Worker.objects.filter(status="busy").exists() and "rain" in worker.read_output())
    gate.touch()
    assert worker.wait(timeout=60) == 0
    assert stored(held).status == "completed"
