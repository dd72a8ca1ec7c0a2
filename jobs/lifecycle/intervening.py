"""What people do to jobs: cancel, retry, discard, change the priority, run now."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django.db import IntegrityError
from django.db.models.functions import Now

from jobs import database, orchestrator, wakeup
from jobs.exceptions import BadValue, JobCancelled, TransitionRefused, UniqueKeyTaken
from jobs.lifecycle.finishing import NO_LEASE, close_attempts
from jobs.lifecycle.leases import FailureReport, LockedJob, lock
from jobs.models import ACTIVE, Event, Job, Kind, Outcome, Status
from jobs.priorities import Priority, parse_priority
from jobs.signals import Transition, announce


def cancel(job_ids: Collection[str] | str, *, actor: str = "", reason: str = "") -> list[str]:
    """waiting, pending, processing → cancelled. A running handler is told to stop. Returns what was cancelled."""

    def write() -> list[str]:
        with database.atomic():
            rows = [row for row in lock(_as_list(job_ids)).values() if row.status in ACTIVE]
            ids = [row.id for row in rows]
            Job.objects.filter(pk__among=ids).update(
                **NO_LEASE, status=Status.CANCELLED, cancelled_at=Now(), cancelled_because="", blocked=False
            )
            running = [row.id for row in rows if row.status == Status.PROCESSING]
            close_attempts(
                running, Outcome.CANCELLED, FailureReport(JobCancelled.__name__, reason or "cancelled")
            )
            Event.record(ids, Kind.CANCELLED, actor=actor, detail=reason)
            _announce(rows, Status.CANCELLED)
            orchestrator.advance([row.id for row in rows if row.has_dependants])
            if running:
                wakeup.on_commit()  # a limited type has room again
        return ids

    return database.when_unlocked(write)


def retry(job_ids: Collection[str] | str, *, actor: str = "") -> list[str]:
    """failed, cancelled → pending with all attempts ahead, and revive what the failure had cancelled.

    Returns what will run again. A job with a prerequisite that is not completed waits for it; if that one has failed,
    the job is refused: retry the prerequisite.
    """

    def write() -> list[str]:
        revived: list[str] = []
        with database.atomic():
            rows = [
                row
                for row in lock(_as_list(job_ids)).values()
                if row.status in (Status.FAILED, Status.CANCELLED)
            ]
            _put_back([row.id for row in rows])
            Event.record([row.id for row in rows], Kind.RETRIED, actor=actor)
            edges = orchestrator.edges_of([row.id for row in rows])
            orchestrator.refuse_if_doomed(edges)
            _announce([row for row in rows if not edges[row.id]], Status.PENDING)
            _announce([row for row in rows if edges[row.id]], Status.WAITING)
            orchestrator.hold([row.id for row in rows if edges[row.id]])
            revived = orchestrator.revive([row.id for row in rows])
            if rows:
                wakeup.on_commit(min(row.priority for row in rows))
        return [row.id for row in rows] + revived

    return database.when_unlocked(write)


def _put_back(job_ids: list[str]) -> None:
    """In one statement; where a unique key is taken, one by one, to say whose."""
    try:
        with database.atomic():
            Job.objects.filter(pk__among=job_ids).update(
                **orchestrator.AFRESH, status=Status.PENDING, run_at=Now()
            )
    except IntegrityError:
        if len(job_ids) == 1:
            raise UniqueKeyTaken(
                f"Job {job_ids[0]}: another active job has the same unique key; wait for it or cancel it first."
            ) from None
        for job_id in job_ids:
            _put_back([job_id])


def settle_failures(job_ids: Collection[str] | str, *, reason: str, actor: str = "") -> list[str]:
    """failed → cancelled: what these jobs were for has been done otherwise, or is not wanted any more. No longer dead
    letters, they keep their errors and attempts. Returns what was changed."""

    def write() -> list[str]:
        with database.atomic():
            rows = [row for row in lock(_as_list(job_ids)).values() if row.status == Status.FAILED]
            ids = [row.id for row in rows]
            Job.objects.filter(pk__among=ids).update(
                status=Status.CANCELLED, cancelled_at=Now(), cancelled_because=""
            )
            Event.record(ids, Kind.CANCELLED, actor=actor, detail=reason)
            _announce(rows, Status.CANCELLED)
        return ids

    return database.when_unlocked(write)


def discard(job_ids: Collection[str] | str) -> int:
    """Delete finished jobs with their attempts and events. Returns how many."""
    with database.atomic():
        rows = lock(_as_list(job_ids))
        live = [row.id for row in rows.values() if row.status in ACTIVE]
        if live:
            raise TransitionRefused(
                f"Job {live[0]} is not finished; cancel it first. Not finished in all: {len(live):,}.",
                code="not_finished",
            )
        orchestrator.cut_loose(rows)
        Job.objects.filter(pk__among=rows).delete()
    return len(rows)


def change_priority(job_ids: Collection[str] | str, priority: Priority, *, actor: str = "") -> list[str]:
    """Only jobs that have not started."""
    try:
        level = parse_priority(priority)
    except BadValue as problem:
        raise TransitionRefused(str(problem), code=problem.code) from None
    return _amend(job_ids, {"priority": level}, f"priority {level}", actor)


def run_now(job_ids: Collection[str] | str, *, actor: str = "") -> list[str]:
    """A job that waits for its time becomes pending at once; one that waits for a prerequisite stays."""
    with database.atomic():
        rows = lock(_as_list(job_ids))
        ready = Job.objects.filter(pk__among=rows, status=Status.WAITING, blocked=False)
        found = {row["id"]: row for row in ready.values("id", "type", "workflow_id", "priority")}
        Job.objects.filter(pk__among=list(found)).update(run_at=Now())
        Event.record(found, Kind.CHANGED, actor=actor, detail="run now")
        orchestrator.promote(found)
    return list(found)


def _amend(job_ids: Collection[str] | str, changes: dict[str, Any], detail: str, actor: str) -> list[str]:
    with database.atomic():
        rows = lock(_as_list(job_ids)).values()
        ids = [row.id for row in rows if row.status in (Status.WAITING, Status.PENDING)]
        Job.objects.filter(pk__among=ids).update(**changes)
        Event.record(ids, Kind.CHANGED, actor=actor, detail=detail)
        if ids:
            wakeup.on_commit(changes["priority"])
    return ids


def _announce(rows: Iterable[LockedJob], after: Status) -> None:
    announce([Transition(row.id, row.type, row.status, after, row.workflow_id) for row in rows])


def _as_list(job_ids: Collection[str] | str) -> list[str]:
    return [job_ids] if isinstance(job_ids, str) else list(job_ids)
