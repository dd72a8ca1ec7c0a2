"""processing → pending / failed: take back jobs whose worker is gone. The attempt counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import F, Q

from jobs import conf, database, orchestrator, wakeup
from jobs.alerts.wording import ABOUT_ALERTS
from jobs.exceptions import WorkerLost
from jobs.lifecycle.finishing import NO_LEASE, close_attempts
from jobs.lifecycle.leases import FailureReport, LockedJob, lock
from jobs.models import Event, Job, Kind, Outcome, SitePresence, Status, WorkerKind
from jobs.models.site_presence import LONGEST_EXCUSE, site_is_unsettled
from jobs.signals import Transition, announce, raise_alarm

BATCH = 500


def expiry_counts(*, of_remote: bool = True) -> bool:
    """False: within the grace. While the database was down nobody could renew a lease, and while the site was down no
    remote worker could, so for a while after their start expiry does not count."""
    grace = conf.current().recovery_grace
    if database.is_postgres():
        started = "SELECT pg_postmaster_start_time() > statement_timestamp() - %s"
        if database.fetch(started, [grace])[0][0]:
            return False
    if not of_remote or not database.has_table(SitePresence):
        return True
    return not SitePresence.objects.unsettled().exists()


def dead_leases() -> Any:
    """The leases whose time is up, by the database's clock, without those of remote workers that could not renew them
    because the site was down."""
    could_not_renew = Q(worker__kind=WorkerKind.REMOTE) & site_is_unsettled()
    for_ages = Q(claim_expires_at__lt=database.now_minus(LONGEST_EXCUSE))
    return Job.objects.expired().filter(for_ages | ~could_not_renew)


def recover_expired(types: Iterable[str] | None = None) -> list[str]:
    """End the dead leases (of these types). Returns the ids of the jobs."""
    dead = dead_leases() if types is None else dead_leases().filter(type__in=list(types))
    ids = list(dead.order_by("pk").values_list("pk", flat=True)[:BATCH])

    def still_expired(row: LockedJob) -> bool:
        # Lock, then check: the lease may have been renewed while the lock was awaited.
        return bool(row.is_expired)

    return _recover(ids, still_expired, "its lease expired")


def recover_lost(worker_id: str, reason: str) -> list[str]:
    """End every lease of a worker that is proven to be gone."""
    ids = list(Job.objects.leased().filter(worker_id=worker_id).order_by("pk").values_list("pk", flat=True))
    return _recover(ids, lambda row: row.worker_id == worker_id, reason)


def _recover(ids: Iterable[str], is_gone: Callable[[LockedJob], bool], reason: str) -> list[str]:
    ids = list(ids)
    if not ids:
        return []
    with database.atomic():
        rows = [row for row in lock(ids).values() if row.status == Status.PROCESSING and is_gone(row)]
        spent = [row for row in rows if row.attempt_number >= row.max_attempts]
        alive = [row for row in rows if row.attempt_number < row.max_attempts]
        _end(alive, Status.PENDING, reason)
        _end(spent, Status.FAILED, f"{reason}; no attempt is left")
        orchestrator.advance([row.id for row in spent if row.has_dependants])
        if rows:
            wakeup.on_commit(min(row.priority for row in rows))
            _tell(rows, reason)
    return [row.id for row in rows]


def _tell(rows: list[LockedJob], reason: str) -> None:
    others = [row for row in rows if row.type != ABOUT_ALERTS]
    if others:
        first = others[0]
        raise_alarm("stale_job_recovered", count=len(others), reason=reason, job=first.id, type=first.type)


def _end(rows: list[LockedJob], status: Status, reason: str) -> None:
    if not rows:
        return
    ids = [row.id for row in rows]
    failure = FailureReport(WorkerLost.__name__, f"The worker is gone: {reason}.")
    step = (
        {} if status == Status.FAILED else {"current_step": ""}
    )  # of a dead letter, the last one says something
    Job.objects.filter(pk__among=frozenset(ids)).update(
        **NO_LEASE, **step, status=status, lease_token=F("lease_token") + 1, last_error=failure.message
    )
    close_attempts(ids, Outcome.LOST, failure)
    Event.record(ids, Kind.RECOVERED, detail=reason)
    announce(
        [Transition(row.id, row.type, row.status, status, row.workflow_id, failure.message) for row in rows]
    )
