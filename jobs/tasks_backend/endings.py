"""task_finished for tasks that end without their function: cancelled, or lost with the last worker they may have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import transaction

from jobs.signals import Transition, jobs_changed
from jobs.tasks_backend import queues
from jobs.tasks_backend.framework import InvalidTask, task_finished


def follow() -> None:
    jobs_changed.connect(_notice, dispatch_uid=__name__)


def _notice(sender: Any, transitions: Sequence[Transition], **more: Any) -> None:
    """Inside the transaction that ends them: others are told when it has committed."""
    from jobs import database
    from jobs.models import Status

    for change in transitions:
        if change.after in (Status.CANCELLED, Status.FAILED) and queues.is_task(change.type):
            transaction.on_commit(partial(_tell, change.job_id), using=database.alias(), robust=True)


def _tell(job_id: str) -> None:
    from jobs.models import Attempt, Outcome, Status
    from jobs.tasks_backend.orders import Order
    from jobs.tasks_backend.results import as_result, find_job

    job = find_job(job_id)
    if job is None or job.status not in (Status.CANCELLED, Status.FAILED):
        return  # somebody has retried it already
    last = Attempt.objects.filter(job_id=job_id).order_by("token").last()
    if job.status == Status.FAILED and (last is None or last.outcome != Outcome.LOST):
        return  # its function has raised, and the worker has told
    try:
        result = as_result(job, Order.read(job.payload))
    except InvalidTask:
        return  # it was none, or is none any more
    task_finished.send_robust(sender=type(result.task.get_backend()), task_result=result)
