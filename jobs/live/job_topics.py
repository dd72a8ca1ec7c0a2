"""Topics of jobs and workflows. The values of a job are called `job.<id>.percent` and so on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.http import QueryDict

from jobs.live.offers import Offer, ids_among, offer
from jobs.live.topic import State, Topic
from jobs.models import Job, Status

MOST_JOBS = 100
"""Jobs that one page may follow by their ids."""
_MOST_OF_A_WORKFLOW = 500
_SETTLED_AFTER = 2.0
"""Percent of progress below which nothing is said about the end."""
_FIELDS = (
    "id",
    "status",
    "progress_percent",
    "current_step",
    "attempt_number",
    "max_attempts",
    "processed_by_worker_name",
    "last_error",
    "claimed_at",
    "last_checkpoint",
)


def jobs_topic(ids: Iterable[str]) -> Topic:
    """The jobs of a list or of a detail page."""
    wanted = sorted(set(ids))
    return Topic(f"jobs:{','.join(wanted)}", partial(_read_jobs, frozenset(wanted)), every=0.25)


def workflow_topic(workflow_id: str) -> Topic:
    """Every job of a workflow, for its picture."""
    return Topic(f"workflow:{workflow_id}", partial(_read_workflow, workflow_id))


def _followed_jobs(values: Sequence[str]) -> list[Topic]:
    return [jobs_topic(ids_among(values, most=MOST_JOBS))]


def _followed_workflow(values: Sequence[str]) -> list[Topic]:
    return [workflow_topic(workflow) for workflow in ids_among(values, most=1)]


def topics_of(query: QueryDict) -> list[Topic]:
    """What `?job=…&job=…&workflow=…` asks for, for a page that has checked who asks. Raises BadTopic."""
    jobs, workflows = query.getlist("job"), query.getlist("workflow")
    return [*(_followed_jobs(jobs) if jobs else ()), *(_followed_workflow(workflows) if workflows else ())]


_SEE_JOBS = ("jobs.view_job", "jobs.change_job")
offer(Offer("job", _SEE_JOBS, _followed_jobs, f"the id of a job; up to {MOST_JOBS} of them"))
offer(Offer("workflow", _SEE_JOBS, _followed_workflow, "the id of a workflow: all its jobs"))


def _read_jobs(ids: frozenset[str]) -> State:
    return _values(Job.objects.filter(pk__among=ids))


def _read_workflow(workflow_id: str) -> State:
    return _values(Job.objects.filter(workflow_id=workflow_id).order_by("pk")[:_MOST_OF_A_WORKFLOW])


def _values(jobs: Any) -> State:
    return {key: value for job in jobs.only(*_FIELDS) for key, value in job_values(job).items()}


def job_values(job: Job) -> State:
    prefix = f"job.{job.pk}"
    return {
        f"{prefix}.status": job.status,
        f"{prefix}.running": job.status == Status.PROCESSING,
        f"{prefix}.percent": round(job.progress_percent, 1),
        f"{prefix}.step": job.current_step,
        f"{prefix}.attempts": f"{job.attempt_number} of {job.max_attempts}",
        f"{prefix}.worker": job.processed_by_worker_name,
        f"{prefix}.error": job.last_error,
        f"{prefix}.eta": estimated_end(job),
    }


def estimated_end(job: Job) -> datetime | None:
    """When a running job will be done if it goes on as it had gone when it last showed progress."""
    percent, since, seen = job.progress_percent, job.claimed_at, job.last_checkpoint
    if job.status != Status.PROCESSING or not since or not seen or not _SETTLED_AFTER <= percent < 100:
        return None
    left = (seen - since).total_seconds() * (100 - percent) / percent
    return (seen + timedelta(seconds=round(left))).replace(microsecond=0)
