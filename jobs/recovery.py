"""The sweep: every worker runs it, one at a time across the fleet.

Every second: due jobs, and proof that a worker is dead. Every minute: everything else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef

from jobs import conf, database, fleet, orchestrator, statistics
from jobs.alerts import patterns
from jobs.breakers import circuits
from jobs.lifecycle.recovering import expiry_counts, recover_expired, recover_lost
from jobs.models import (
    ACTIVE,
    Attempt,
    ClaimAnswer,
    Event,
    Firing,
    Job,
    Prerequisite,
    Schedule,
    Status,
    SubmissionWindow,
    Worker,
    WorkerKind,
    Workflow,
)
from jobs.timetable import schedules
from jobs.ulid import ulid_floor

log = logging.getLogger("jobs.recovery")

PRUNE_BATCH = 1000


@dataclass(frozen=True)
class Glance:
    """What one cheap statement tells about the queue, and about the worker that asks."""

    pending: bool
    next_due: float | None
    """Seconds until a waiting job's time comes; negative: it has come."""
    order: str | None
    """What people want of this worker: "disabled", "draining" or "" (go on); None: it is not registered."""
    lease_holders: list[str] = field(default_factory=list)
    next_firing: float | None = None
    """Seconds until a schedule is due."""

    def until_next(self, tick: float) -> float:
        """Seconds until there is something to do again, at most a tick."""
        if self.next_firing is not None and self.next_firing > 0:
            tick = min(tick, max(0.01, self.next_firing))
        return tick if self.next_due is None else min(tick, max(0.01, self.next_due))


def glance(worker_id: str | None = None) -> Glance:
    until = (
        "EXTRACT(EPOCH FROM min({}) - statement_timestamp())::float8"
        if database.is_postgres()
        else "(julianday(min({})) - julianday('now')) * 86400.0"
    )
    firing = "NULL"
    if database.has_table(Schedule):
        firing = f"(SELECT {until.format('next_at')} FROM jobs_schedule WHERE next_at IS NOT NULL)"
    rows = database.fetch(
        f"""
        SELECT EXISTS (SELECT 1 FROM jobs_job WHERE status = 'pending'),
               (SELECT {until.format("run_at")} FROM jobs_job WHERE status = 'waiting' AND NOT blocked),
               (SELECT CASE WHEN draining THEN 'draining' WHEN disabled THEN 'disabled' ELSE '' END
                FROM jobs_worker WHERE id = %s),
               {firing}, NULL
        UNION ALL
        SELECT NULL, NULL, NULL, NULL, worker_id
        FROM (SELECT DISTINCT worker_id FROM jobs_job WHERE status = 'processing') AS holder
        """,
        [worker_id],
    )
    (pending, next_due, order, next_firing, _), *holders = sorted(rows, key=lambda row: row[4] is not None)
    return Glance(bool(pending), next_due, order, [row[4] for row in holders], next_firing)


def tick(glance: Glance, suspects: Collection[str], *, fires: bool = True) -> None:
    """What cannot wait for the sweep: due jobs, due schedules, and those of these workers that are proven dead."""
    if glance.next_due is not None and glance.next_due <= 0:
        orchestrator.promote_due()
    if fires and glance.next_firing is not None and glance.next_firing <= 0:
        schedules.fire_due()
    if suspects:
        bury_the_dead(suspects)


def bury_the_dead(suspects: Iterable[str]) -> list[str]:
    """Those of them that are proven dead lose their jobs and count as offline. Returns the ids of the jobs."""
    recovered: list[str] = []
    for worker in Worker.objects.filter(pk__in=suspects):
        if fleet.proof_of_death(worker) is None:
            continue
        with database.atomic():
            if not database.try_sweep_lock():
                return recovered
            # Lock, then check: its name may have been taken over by a new process, which holds jobs of its own.
            locked = Worker.objects.select_for_update().filter(pk=worker.pk).first()
            proof = fleet.proof_of_death(locked) if locked else None
            if locked is None or proof is None:
                continue
            jobs = recover_lost(worker.pk, proof)
            is_news = fleet.mark_dead_offline(locked, proof)
        if jobs:
            log.warning("recovered %d job(s): %s", len(jobs), proof)
        elif is_news:
            log.warning("a worker that held no job is dead: %s", proof)
        recovered += jobs
    return recovered


def end_expired_leases() -> list[str]:
    if not expiry_counts(of_remote=False):
        return []
    jobs = recover_expired()
    if jobs:
        log.warning("recovered %d job(s): lease expired", len(jobs))
    return jobs


def mark_offline() -> list[str]:
    names = fleet.mark_silent_offline()
    for name in names:
        log.warning(
            "worker %s is silent and counts as offline; its jobs wait for the end of their leases", name
        )
    return names


def prune_jobs(*, limit: int = 10 * PRUNE_BATCH) -> int:
    """Delete completed and cancelled jobs older than RETENTION. Failed jobs stay until someone decides."""
    pruned = 0
    while pruned < limit:
        with database.atomic(savepoint=False):
            batch = _prunable()
            for model in (Attempt, Event):
                model._default_manager.filter(job__in=batch)._raw_delete(database.alias())
            Prerequisite.objects.filter(job__in=batch).delete()
            Prerequisite.objects.filter(needs__in=batch).delete()
            Job.objects.filter(parent__in=batch).update(parent=None)
            Job.objects.filter(pk__in=batch)._raw_delete(database.alias())
        pruned += len(batch)
        if len(batch) < PRUNE_BATCH:
            break
    return pruned


def _prunable() -> list[str]:
    """Read in the order of the ids, which carry the time of creation: no index of its own is needed."""
    retention = conf.current().retention
    oldest_kept = database.now_minus(retention)
    created_before = ulid_floor((database.read_clock() - retention).timestamp())
    still_running = Job.objects.filter(workflow=OuterRef("workflow"), status__in=ACTIVE)
    # Whoever retries a failed job wants back what its failure has cancelled.
    to_revive = Job.objects.filter(pk=OuterRef("cancelled_because"), status=Status.FAILED)
    old = Job.objects.filter(pk__lt=created_before, status__in=(Status.COMPLETED, Status.CANCELLED))
    old = old.exclude(completed_at__gte=oldest_kept).exclude(cancelled_at__gte=oldest_kept)
    old = old.filter(~Exists(still_running), ~Exists(to_revive))
    return list(old.order_by("pk").values_list("pk", flat=True)[:PRUNE_BATCH])


def prune_the_rest() -> int:
    """Rows that only ever served others: empty workflows, rate counters, answered claims, firings, departed workers,
    patterns of failures."""
    old = database.now_minus(conf.current().retention)
    empty = Workflow.objects.filter(jobs__isnull=True, created_at__lt=old)
    windows = SubmissionWindow.objects.filter(minute__lt=database.now_minus(conf.parse_duration("10m")))
    departed = Worker.objects.filter(stopped_at__lt=old, disabled=False, running_jobs__isnull=True)
    answered = ClaimAnswer.objects.filter(at__lt=database.now_minus(conf.current().claim_duration))
    deliveries = Worker.objects.filter(kind=WorkerKind.SITE, registered_at__lt=old, running_jobs__isnull=True)
    groups = [empty, windows, answered, departed, deliveries]
    if database.has_table(Firing):
        groups.append(Firing.objects.filter(fired_at__lt=old))
    removed: int = sum(group.delete()[0] for group in groups)
    return removed + patterns.forget_old()


STEPS: tuple[Callable[[], object], ...] = (
    end_expired_leases,
    mark_offline,
    orchestrator.promote_due,
    orchestrator.repair,
    circuits.free_places,
    statistics.count_minutes,
    prune_jobs,
    prune_the_rest,
)


def sweep() -> bool:
    """All of it, each step in a transaction of its own. False: another worker is sweeping."""
    # Beside those that hold jobs, of which every tick makes sure, the idle ones: nobody should count on the dead.
    bury_the_dead({*glance().lease_holders, *Worker.objects.online().values_list("pk", flat=True)})
    return all(under_sweep_lock(step) for step in STEPS)


def under_sweep_lock(step: Callable[[], object]) -> bool:
    """Take this step in a transaction of its own. False: another worker is sweeping."""
    with database.atomic():
        if not database.try_sweep_lock():
            return False
        step()
    return True
