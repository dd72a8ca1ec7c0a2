"""Workflows: jobs that wait for other jobs.

with workflow("import") as flow:
    fetch = flow.add("fetch", url=…)
    left, right = flow.add("parse", after=[fetch]), flow.add("index", after=[fetch])
    flow.add("publish", after=[left, optional(right)])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs import database, orchestrator, payloads
from jobs.exceptions import EnqueueRefused
from jobs.lifecycle.enqueueing import admit, check_unique_key, insert, make_terms
from jobs.lifecycle.leases import Lease, lock_leased
from jobs.lifecycle.writing import Draft, Terms
from jobs.models import Job, Prerequisite, Workflow
from jobs.priorities import Priority
from jobs.ulid import derived_ulid, new_ulid


@dataclass(frozen=True)
class Needed:
    """A prerequisite that may fail without cancelling what depends on it."""

    job_id: str
    optional: bool


def optional(job: Job | str) -> Needed:
    """Wait for this job, however it ends."""
    return Needed(_id(job), optional=True)


After = Sequence[Job | str | Needed]


class Flow:
    """A workflow under construction."""

    def __init__(self, record: Workflow, *, correlation_id: str | None = None) -> None:
        self.record = record
        self.correlation_id = correlation_id or record.id

    def add(
        self,
        type_name: str,
        payload: Mapping[str, Any] | None = None,
        /,
        *,
        after: After = (),
        priority: Priority | None = None,
        delay: timedelta | float | None = None,
        unique_key: str | None = None,
        submitter: str = "",
        max_attempts: int | None = None,
        **arguments: Any,
    ) -> Job:
        """Add a job that becomes pending when everything in `after` is completed."""
        terms = make_terms(
            type_name,
            priority=priority,
            delay=delay,
            submitter=submitter,
            correlation_id=self.correlation_id,
            max_attempts=max_attempts,
        )
        draft = Draft(
            new_ulid(),
            payloads.encode_payload(payloads.merge(payload, arguments)),
            check_unique_key(unique_key),
        )
        with database.atomic():
            return place(terms, draft, after, workflow_id=self.record.id)


@contextmanager
def workflow(name: str, *, correlation_id: str | None = None) -> Iterator[Flow]:
    """A new workflow; its jobs are stored together or, when the block raises, not at all."""
    with database.atomic():
        yield Flow(Workflow.objects.create(name=name), correlation_id=correlation_id)


def add_child(lease: Lease, terms: Terms, draft: Draft, after: After, key: str | None) -> Job:
    """A job added by a running job, bound to its lease: a worker that lost the job adds nothing.

    With a key, the child's id follows from parent and key: a second attempt of the parent finds the child of the first.
    """
    with database.atomic():
        parent = lock_leased(lease)
        if key is not None:
            draft = Draft(derived_ulid(lease.job_id, key), draft.payload, draft.unique_key)
            child: Job | None = Job.objects.filter(pk=draft.id).first()
            if child is not None:  # whatever has become of it, of its prerequisites and of the queue's depth
                child.created = False
                return child
        return place(terms, draft, after, workflow_id=parent.workflow_id, parent_id=parent.id)


def place(
    terms: Terms, draft: Draft, after: After, *, workflow_id: str | None, parent_id: str | None = None
) -> Job:
    """Store a job with its prerequisites. These are locked first, so that none can end unnoticed meanwhile."""
    needed = _needed(after)
    admit(terms, 1)
    known = _lock_needed(needed)
    edges = [
        orchestrator.Edge(id, known[id]["status"], need.optional, known[id]["cancelled_because"])
        for id, need in needed.items()
    ]
    word, cause = orchestrator.verdict(edges)
    if word == orchestrator.DOOMED:
        raise EnqueueRefused(
            f"The prerequisite {cause} did not complete, so this job could never run.",
            code="prerequisite_failed",
        )
    job = insert(
        Terms(
            **{
                **terms.__dict__,
                "workflow_id": workflow_id,
                "parent_id": parent_id,
                "blocked": word == orchestrator.BLOCKED,
            }
        ),
        draft,
    )
    if needed and job.created:
        Prerequisite.objects.bulk_create(
            Prerequisite(job_id=job.pk, needs_id=id, optional=need.optional) for id, need in needed.items()
        )
        Job.objects.filter(pk__among=needed, has_dependants=False).update(has_dependants=True)
    return job


def _needed(after: After) -> dict[str, Needed]:
    needed = (item if isinstance(item, Needed) else Needed(_id(item), optional=False) for item in after)
    return {need.job_id: need for need in needed}


def _lock_needed(needed: Mapping[str, Needed]) -> dict[str, dict[str, Any]]:
    if not needed:
        return {}
    rows = Job.objects.filter(pk__among=list(needed)).order_by("pk").select_for_update()
    known: dict[str, dict[str, Any]] = {
        row["id"]: dict(row) for row in rows.values("id", "status", "cancelled_because")
    }
    missing = set(needed) - set(known)
    if missing:
        raise EnqueueRefused(f"There is no job {min(missing)} to wait for.", code="unknown_prerequisite")
    return known


def _id(job: Job | str) -> str:
    return job if isinstance(job, str) else job.pk
