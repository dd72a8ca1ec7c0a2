"""A job seen as the result of a task."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from django.db.models import DateTimeField
from django.db.models.functions import Now

from jobs import exceptions
from jobs.models import Attempt, Job, Outcome, Status
from jobs.tasks_backend.framework import TaskError, TaskResult, TaskResultStatus
from jobs.tasks_backend.orders import Order

STATUS = {
    Status.WAITING: TaskResultStatus.READY,
    Status.PENDING: TaskResultStatus.READY,
    Status.PROCESSING: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}


def find_job(job_id: str) -> Job | None:
    """With the database's time in `.read_at`."""
    found: Job | None = (
        Job.objects.filter(pk=job_id).annotate(read_at=Now(output_field=DateTimeField())).first()
    )
    return found


def as_result(job: Job, order: Order) -> TaskResult[..., Any]:
    runs = [run for run in _attempts(job) if run.outcome != Outcome.RELEASED]
    result: TaskResult[..., Any] = TaskResult(
        task=order.find_task(),
        id=job.pk,
        status=STATUS[Status(job.status)],
        enqueued_at=job.created_at,
        started_at=job.started_at,
        finished_at=_finished_at(job, runs),
        last_attempted_at=runs[-1].started_at if runs else None,
        args=order.args,
        kwargs=order.kwargs,
        backend=order.alias,
        errors=_errors(job, runs),
        worker_ids=[run.worker_id for run in runs],
    )
    object.__setattr__(result, "_return_value", job.result)  # as the frameworks' own backends do it
    return result


def _attempts(job: Job) -> Sequence[Attempt]:
    if job.lease_token == 0:
        return []
    if job.lease_token == 1 and job.status == Status.PROCESSING and job.claimed_at:
        # The job itself knows its first run.
        return [Attempt(job_id=job.pk, token=1, worker_id=job.worker_id, started_at=job.claimed_at)]
    return list(Attempt.objects.filter(job_id=job.pk).order_by("token"))


def _finished_at(job: Job, runs: Sequence[Attempt]) -> Any:
    if job.status == Status.FAILED:
        return runs[-1].finished_at if runs else None
    return job.completed_at or job.cancelled_at


def _errors(job: Job, runs: Sequence[Attempt]) -> list[TaskError]:
    errors = [
        TaskError(exception_class_path=path_of(run.error_type), traceback=run.traceback or run.error)
        for run in runs
        if run.outcome in (Outcome.FAILED, Outcome.LOST)
    ]
    if job.status == Status.CANCELLED:
        stopped = f"{exceptions.__name__}.{exceptions.JobCancelled.__name__}"
        errors.append(TaskError(exception_class_path=stopped, traceback="The task was cancelled."))
    return errors


def name_of(error: type[BaseException]) -> str:
    """As tracebacks name it: with its module, unless that is `builtins`."""
    home = "" if error.__module__ == "builtins" else f"{error.__module__}."
    return f"{home}{error.__qualname__}"


def path_of(name: str) -> str:
    """The reverse; names without a module that Python does not know are the queue's own."""
    if "." in name:
        return name
    home = builtins if hasattr(builtins, name) else exceptions
    return f"{home.__name__}.{name}"
