"""Jobs that remote workers hold: what they are given to run one, and how it ends. Their types have a say in both."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import DatabaseError

from jobs import database, lifecycle, registry, remote, remote_claims
from jobs.exceptions import InvalidPayload, LeaseLost, PermanentFailure, RetryLater
from jobs.lifecycle import FailureReport, Lease
from jobs.lifecycle.leases import IS_EXPIRED, is_dead, lock_leased
from jobs.models import Job, Status, Worker
from jobs.remote_work import PLAIN, DoneAtSite, FileRefused, RemoteJob, RemoteWork, SourceFile
from jobs.worker.context import JobContext
from jobs.worker.handling import run_handler

log = logging.getLogger("jobs.remote")

T = TypeVar("T")

_OF_THE_REQUEST = (LeaseLost, FileRefused, InvalidPayload, DatabaseError)
"""What says something about a request, or about the site; all else is how an attempt ends."""


def find(worker: Worker, lease: Lease) -> RemoteJob:
    """The job under this live lease, or LeaseLost."""
    held = Job.objects.filter(pk=lease.job_id, status=Status.PROCESSING)
    row = (
        held.filter(lease_token=lease.token, worker_id=lease.worker_id)
        .values_list("type", "payload", "attempt_number", "max_attempts", IS_EXPIRED)
        .first()
    )
    if row is None or is_dead(row[4]):
        raise LeaseLost(lease.job_id)
    type_name, payload, attempt, max_attempts, _ = row
    return RemoteJob(lease, type_name, payload, attempt, max_attempts, worker)


def work_of(job: RemoteJob) -> RemoteWork:
    kind = registry.find(job.type)
    return (kind.remote_work if kind else None) or PLAIN


def context_of(job: RemoteJob) -> JobContext:
    """The job as its handler would see it here: for what the site does in the name of a worker's lease."""
    held = remote_claims.read_held(job.worker, [job.lease])
    if not held:
        raise LeaseLost(job.lease.job_id)
    return JobContext(held[0], report=lambda report: None)


@dataclass(frozen=True, slots=True)
class Order:
    """All that a worker needs to run a job, besides what the claim gave it."""

    done: bool
    """The result exists already: there is nothing to do but to complete the job."""
    order: dict[str, Any]
    source: SourceFile | None


def give_order(job: RemoteJob) -> Order:
    return _as_decided(job, lambda: _order(job))


def give_source(job: RemoteJob) -> SourceFile | None:
    return _as_decided(job, lambda: work_of(job).source(job))


def give_input(job: RemoteJob, name: str) -> SourceFile | None:
    return _as_decided(job, lambda: work_of(job).input(job, name))


def proceed(job: RemoteJob) -> float:
    """How much is done of what only the site can do, after a few more seconds of it."""
    if isinstance(work_of(job), DoneAtSite):
        _run_here(job)
        return 1.0
    return _as_decided(job, lambda: _as_attempt(job, lambda: work_of(job).proceed(job)))


def _as_decided(job: RemoteJob, ask: Callable[[], T]) -> T:
    """As a worker calls a handler: what the type raises decides about the job, and the lease is over."""
    try:
        return ask()
    except RetryLater as later:
        failure = FailureReport.of(later, retry_in=later.delay, counted=later.counted)
    except PermanentFailure as final:
        failure = FailureReport.of(final, permanent=True)
    _fail(job.lease, failure)
    raise LeaseLost(job.lease.job_id)


def _as_attempt(job: RemoteJob, work: Callable[[], T]) -> T:
    """The site's own part of a job: whatever goes wrong there ends the attempt, as in a handler."""
    try:
        return work()
    except (*_OF_THE_REQUEST, RetryLater, PermanentFailure):
        raise
    except Exception as error:
        log.warning("job %s: the site's part of it has failed", job.lease.job_id, exc_info=True)
        failure = FailureReport.of(error)
    _fail(job.lease, failure)
    raise LeaseLost(job.lease.job_id)


def _order(job: RemoteJob) -> Order:
    kind = registry.find(job.type)
    if kind is None:
        raise PermanentFailure(f"The site has no job type {job.type} any more.")
    problem = kind.arguments_problem(job.payload)
    if problem:
        raise PermanentFailure(problem)
    if kind.artifact and kind.artifact(job.payload):
        return Order(True, {}, None)
    work = work_of(job)
    return Order(False, work.order(job), work.source(job))


def complete(worker: Worker, lease: Lease, result: Any) -> None:
    """Raises FileRefused when the type misses something; then nothing has changed."""
    job = _find_or_none(worker, lease)
    if job is None or not _has_a_say(work_of(job)):
        _complete(lease, result)
    elif isinstance(work_of(job), DoneAtSite):
        _run_here(job)
    else:
        _as_decided(job, lambda: _as_attempt(job, lambda: _finish(job, result)))


def _has_a_say(work: RemoteWork) -> bool:
    own = type(work)
    return own is DoneAtSite or own.finish is not RemoteWork.finish or own.proceed is not RemoteWork.proceed


def _run_here(job: RemoteJob) -> None:
    """The whole job, as a worker would; its end is written here, too, so what the worker says of it changes nothing."""
    with database.atomic():
        lock_leased(job.lease)  # whoever has lost the job starts nothing
    outcome = run_handler(context_of(job))
    if outcome is not None and outcome.failure is None:
        return _complete(job.lease, outcome.result)
    if outcome is not None and outcome.failure is not None:
        log.warning("job %s: %s: %s", job.lease.job_id, outcome.failure.type, outcome.failure.message)
        _fail(job.lease, outcome.failure)
    raise LeaseLost(job.lease.job_id)


def _finish(job: RemoteJob, result: Any) -> None:
    work = work_of(job)
    if work.proceed(job) < 1:
        raise FileRefused("The site has not done its part yet: ask it to proceed.")

    def write() -> None:
        with database.atomic():
            lock_leased(job.lease)
            work.finish(job, result)
            lifecycle.complete(job.lease, result)

    database.when_unlocked(write)
    remote.mark_idle(job.lease.worker_id)


def fail(worker: Worker, lease: Lease, failure: FailureReport) -> Status:
    job = _find_or_none(worker, lease) if failure.counted else None
    if job is not None:
        work_of(job).failed(job, failure)
    return _fail(lease, failure)


def release(lease: Lease, *, reason: str) -> bool:
    """False: the lease was lost. A repeated release, whose answer got lost, is a success again."""
    lost = lifecycle.release([lease], reason=reason)
    if lost:
        return remote_claims.was_released(lease)
    remote.mark_idle(lease.worker_id)
    return True


def _complete(lease: Lease, result: Any) -> None:
    lifecycle.complete(lease, result)
    remote.mark_idle(lease.worker_id)


def _fail(lease: Lease, failure: FailureReport) -> Status:
    status = lifecycle.fail(lease, failure)
    remote.mark_idle(lease.worker_id)
    return status


def _find_or_none(worker: Worker, lease: Lease) -> RemoteJob | None:
    """None: the report may be a repeated one, of a lease that it has ended before."""
    try:
        return find(worker, lease)
    except LeaseLost:
        return None
