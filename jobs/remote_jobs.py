"""Jobs that remote workers hold: what they are given to run one, and how it ends. Their types have a say in both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from jobs import database, lifecycle, registry
from jobs.exceptions import LeaseLost, PermanentFailure, RetryLater
from jobs.lifecycle import FailureReport, Lease
from jobs.lifecycle.leases import lock_leased
from jobs.models import Job, Status, Worker
from jobs.remote_work import PLAIN, RemoteJob, RemoteWork, SourceFile

T = TypeVar("T")


def find(worker: Worker, lease: Lease) -> RemoteJob:
    """The job under this lease, or LeaseLost."""
    held = Job.objects.filter(pk=lease.job_id, status=Status.PROCESSING)
    row = (
        held.filter(lease_token=lease.token, worker_id=lease.worker_id)
        .values_list("type", "payload", "attempt_number", "max_attempts")
        .first()
    )
    if row is None:
        raise LeaseLost(lease.job_id)
    return RemoteJob(lease, *row, worker)


def work_of(job: RemoteJob) -> RemoteWork:
    kind = registry.find(job.type)
    return (kind.remote_work if kind else None) or PLAIN


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


def _as_decided(job: RemoteJob, ask: Callable[[], T]) -> T:
    """As a worker calls a handler: what the type raises decides about the job, and the lease is over."""
    try:
        return ask()
    except RetryLater as later:
        failure = FailureReport.of(later, retry_in=later.delay, counted=later.counted)
    except PermanentFailure as final:
        failure = FailureReport.of(final, permanent=True)
    lifecycle.fail(job.lease, failure)
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

    def write() -> None:
        with database.atomic():
            job = _find_or_none(worker, lease)
            if job is not None and type(work_of(job)).finish is not RemoteWork.finish:
                lock_leased(lease)
                work_of(job).finish(job, result)
            lifecycle.complete(lease, result)

    database.when_unlocked(write)


def fail(worker: Worker, lease: Lease, failure: FailureReport) -> Status:
    job = _find_or_none(worker, lease) if failure.counted else None
    if job is not None:
        work_of(job).failed(job, failure)
    return lifecycle.fail(lease, failure)


def _find_or_none(worker: Worker, lease: Lease) -> RemoteJob | None:
    """None: the report may be a repeated one, of a lease that it has ended before."""
    try:
        return find(worker, lease)
    except LeaseLost:
        return None
