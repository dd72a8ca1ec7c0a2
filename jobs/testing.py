"""For the tests of host sites: run what is due inline, and look at what has been enqueued.

    def test_signing_up_sends_a_welcome(client, db):
        client.post("/sign-up/", {"email": "a@example.org"})
        assert_enqueued("mail.send", to="a@example.org")
        run_due_jobs()
        assert len(mail.outbox) == 1

    def test_a_feed_that_is_gone_is_reported(db):
        enqueue("feeds.read", url="https://example.org/gone")
        run_due_jobs(raise_errors=False)
        assert [(raised.type, raised.error) for raised in exceptions()] == [("FeedGone", "410")]

Everything happens in the test's own thread, connection and transaction, so it works in a Django TestCase and with
pytest's `db` fixture. No worker process is needed, and nothing of it is left behind when the test is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now

from jobs import capacity, database, lifecycle, orchestrator, registry, tracing
from jobs.exceptions import LeaseLost
from jobs.lifecycle import ClaimedJob, ProgressReport
from jobs.logs import log_context
from jobs.models import (
    Attempt,
    ClaimAnswer,
    Event,
    Job,
    Outcome,
    Prerequisite,
    Status,
    SubmissionWindow,
    Worker,
    WorkerStatus,
    Workflow,
)
from jobs.ulid import new_ulid
from jobs.worker.context import JobContext
from jobs.worker.handling import Outcome as HandlerOutcome
from jobs.worker.handling import run_handler

RUNAWAY = 1000
"""More runs than this in one call, without a limit, are taken for a job that enqueues itself for ever."""

_IN_ERROR = 3
"""What psycopg calls a transaction that refuses every statement until it is rolled back."""


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt that run_due_jobs() made."""

    id: str
    type: str
    attempt: int
    status: Status
    """What the job is now: completed, failed, or waiting for its next attempt."""
    result: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception that a handler has raised."""

    job_id: str
    job_type: str
    attempt: int
    type: str
    """The name of its class."""
    error: str
    """What it says."""
    traceback: str


class HandlerFailed(AssertionError):
    """A handler raised while run_due_jobs(raise_errors=True) ran it; its traceback is in the message."""


def run_due_jobs(
    *, limit: int | None = None, ahead: timedelta = timedelta(0), raise_errors: bool = True
) -> list[Run]:
    """Run what is due, and what that enqueues, until nothing is due. Returns the runs in their order.

        run_due_jobs()                                      everything that is due now
        run_due_jobs(limit=1)                               one job only
        run_due_jobs(ahead=timedelta(hours=2))              also what is delayed, or backs off, by up to two hours
        [run] = run_due_jobs(raise_errors=False)            a failing handler is what the test is about
        assert (run.status, run.error) == ("waiting", "ValueError: no such podcast")

    A job passes through the same life as with a worker: claimed by priority (limits and paused types count), counted,
    completed or failed, its children and dependants after it. Three things differ. Delayed jobs and retries stay
    waiting, as a test does not wait; `ahead` makes those due whose time comes within it. An exception raised by a
    handler is recorded as usual and then raised as HandlerFailed, unless `raise_errors` is false (RetryLater is no
    error). And `isolate` and `timeout` do nothing, as the handler runs here.

    What a handler puts into transaction.on_commit() runs as soon as the handler has ended.
    """
    horizon = database.read_clock() + ahead
    runs: list[Run] = []
    with _worker() as worker:
        while limit is None or len(runs) < limit:
            claimed = _claim_next(worker, horizon if ahead else None)
            if claimed is None:
                break
            if limit is None and len(runs) == RUNAWAY:
                raise AssertionError(
                    f"{RUNAWAY} jobs ran and {claimed.type} is due again. Does it enqueue itself?"
                )
            runs.append(_run(claimed, raise_errors=raise_errors))
    return runs


def assert_enqueued(type_name: str, payload: Mapping[str, Any] | None = None, /, **arguments: Any) -> Job:
    """A job of this type with at least these arguments has yet to run (waiting or pending); returns the oldest.

    job = assert_enqueued("mail.send", to="a@example.org")
    assert job.priority == HIGH
    """
    wanted = {**(payload or {}), **arguments}
    for job in _in_queue():
        if _matches(job, type_name, wanted):
            return job
    raise AssertionError(f"No job {_described(type_name, wanted)} is in the queue. {_inventory()}")


def assert_not_enqueued(
    type_name: str, payload: Mapping[str, Any] | None = None, /, **arguments: Any
) -> None:
    """No job of this type with these arguments has yet to run.

    assert_not_enqueued("mail.send")                        none at all
    assert_not_enqueued("mail.send", to="a@example.org")    none to this address
    """
    wanted = {**(payload or {}), **arguments}
    found = [job for job in _in_queue() if _matches(job, type_name, wanted)]
    if found:
        raise AssertionError(
            f"{len(found)} job(s) {_described(type_name, wanted)} in the queue. {_inventory()}"
        )


def exceptions(type_name: str | None = None) -> list[Raised]:
    """What the handlers (of this job type) have raised, the oldest first: RetryLater, too.

    Read from the attempts, so it also holds what handlers of a real worker have raised. A test's rollback or purge()
    empties it. A cancelled attempt and one that was lost with its worker have raised nothing.
    """
    attempts = Attempt.objects.filter(outcome__in=(Outcome.FAILED, Outcome.RELEASED)).exclude(error_type="")
    if type_name is not None:
        attempts = attempts.filter(job__type=type_name)
    rows = attempts.order_by("finished_at", "pk").values_list(
        "job_id", "job__type", "number", "error_type", "error", "traceback"
    )
    return [Raised(*row) for row in rows]


def purge() -> int:
    """Empty the queue: delete every job, whatever its status, with its attempts, events and workflow, and the counts of
    submitters' rate limits. Returns how many jobs there were.

    For tests without a transaction to roll back. Workers, schedules, breakers, and what is paused or limited, stay.
    A worker that runs one of the jobs loses its lease. Never call it in production.
    """
    models = (Attempt, Event, Prerequisite, Job, Workflow, SubmissionWindow, ClaimAnswer)
    with database.atomic():
        deleted = {model: model._default_manager.all()._raw_delete(database.alias()) for model in models}
    capacity.forget_count()
    return int(deleted[Job])


# -- running -----------------------------------------------------------------------------------------------------------


@contextmanager
def _worker() -> Iterator[Worker]:
    """A worker that can do everything, for as long as the call lasts."""
    kinds = registry.all_types()
    able = {name for kind in kinds for name in (*kind.requires, *([kind.prefers] if kind.prefers else []))}
    worker = Worker.objects.create(
        name=f"run_due_jobs-{new_ulid()}",
        status=WorkerStatus.BUSY,
        job_types=[kind.name for kind in kinds],
        capabilities=sorted(able),
        last_heartbeat=Now(),
    )
    try:
        yield worker
    finally:
        if not _is_spoilt(database.connection()):
            lifecycle.recover_lost(worker.pk, "run_due_jobs() was interrupted")
            worker.delete()


def _claim_next(worker: Worker, horizon: datetime | None) -> ClaimedJob | None:
    """The most urgent job; when there is none, time is moved to the next one that is due before the horizon."""
    while True:
        orchestrator.promote_due()
        claimed = lifecycle.claim(worker, 1)
        if claimed:
            return claimed[0]
        delayed = Job.objects.filter(status=Status.WAITING, blocked=False).order_by("run_at", "pk")
        following = delayed.filter(run_at__lte=horizon).first() if horizon else None
        if following is None:
            return None
        Job.objects.filter(pk=following.pk).update(run_at=Now())


def _run(claimed: ClaimedJob, *, raise_errors: bool) -> Run:
    context = JobContext(claimed, report=_report_progress)
    about = {"job_id": context.id, "job_type": context.type, "correlation_id": context.correlation_id}
    with _as_if_committed(), log_context(**about), tracing.running(claimed) as span:
        outcome = run_handler(context)
        tracing.note_end(span, outcome.failure if outcome else None)
    _report(outcome)
    job = Job.objects.get(pk=context.id)
    failure = outcome.failure if outcome else None
    if failure and failure.retry_in is None and raise_errors:
        raise HandlerFailed(
            f"{job} failed in attempt {context.attempt}:\n{failure.traceback or failure.message}"
        )
    return Run(
        id=context.id,
        type=context.type,
        attempt=context.attempt,
        status=Status(job.status),
        result=job.result,
        error=f"{failure.type}: {failure.message}" if failure else "",
    )


def _report_progress(report: ProgressReport) -> None:
    lifecycle.report_progress([report])


def _report(outcome: HandlerOutcome | None) -> None:
    try:
        if outcome is None:
            return
        if outcome.failure:
            lifecycle.fail(outcome.lease, outcome.failure)
        elif outcome.released:
            lifecycle.release([outcome.lease])
        else:
            lifecycle.complete(outcome.lease, outcome.result)
    except LeaseLost:
        return  # the handler has cancelled its own job


@contextmanager
def _as_if_committed() -> Iterator[None]:
    """Inside the test's transaction, give the handler what a connection of its own would have given it.

    A statement that fails spoils the handler's work, not the test's transaction; callbacks run after the handler.
    """
    enclosed = [
        connection for connection in connections.all(initialized_only=True) if connection.in_atomic_block
    ]
    marks = [
        (connection, str(connection.savepoint()), len(connection.run_on_commit)) for connection in enclosed
    ]
    yield
    for connection, savepoint, already in marks:
        if _is_spoilt(connection):
            connection.needs_rollback = False
            connection.savepoint_rollback(savepoint)
            del connection.run_on_commit[already:]
        else:
            connection.savepoint_commit(savepoint)
        while len(connection.run_on_commit) > already:
            callback = connection.run_on_commit.pop(already)[1]
            callback()


def _is_spoilt(connection: BaseDatabaseWrapper) -> bool:
    if connection.needs_rollback:
        return True
    if connection.vendor != "postgresql":
        return False
    return int(connection.connection.info.transaction_status) == _IN_ERROR


# -- looking -----------------------------------------------------------------------------------------------------------


def _in_queue() -> list[Job]:
    return list(Job.objects.unclaimed().order_by("pk"))


def _matches(job: Job, type_name: str, wanted: Mapping[str, Any]) -> bool:
    return job.type == type_name and all(
        key in job.payload and job.payload[key] == value for key, value in wanted.items()
    )


def _described(type_name: str, wanted: Mapping[str, Any]) -> str:
    return f"{type_name}({', '.join(f'{key}={value!r}' for key, value in wanted.items())})"


def _inventory() -> str:
    jobs = [f"  {_described(job.type, job.payload)} {job.status}" for job in _in_queue()]
    shown = jobs[:20] + ([f"  … and {len(jobs) - 20} more"] if len(jobs) > 20 else [])
    return "\n".join(["The queue holds:", *shown]) if jobs else "The queue is empty."
