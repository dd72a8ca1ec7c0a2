"""processing → processing: progress and renewal, for leases that are still alive."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models.functions import Now

from jobs import conf, database, payloads
from jobs.lifecycle.leases import Lease, lock
from jobs.models import Job


@dataclass(frozen=True, slots=True)
class ProgressReport:
    lease: Lease
    percent: float
    step: str = ""


def report_progress(reports: Sequence[ProgressReport]) -> list[Lease]:
    """Store progress and renew the leases. Returns the leases that are lost; for them nothing was changed."""

    def write() -> list[Lease]:
        lost = []
        with database.atomic():
            rows = lock(report.lease.job_id for report in reports)
            for report in reports:
                row = rows.get(report.lease.job_id)
                if row is None or not row.is_under(report.lease):
                    lost.append(report.lease)
                    continue
                Job.objects.filter(pk=row.id).update(
                    progress_percent=min(100.0, max(0.0, report.percent)),
                    current_step=payloads.storable(report.step)[:100],
                    last_checkpoint=Now(),
                    claim_expires_at=database.now_plus(conf.current().claim_duration),
                )
        return lost

    return database.when_unlocked(write) if reports else []


def renew(worker_id: str, running: Collection[str] | None = None) -> int:
    """Renew every lease of this worker whose job has started, or shown progress, within the stale timeout.

    `running`: the jobs that the worker says it runs; whatever else it holds is left to expire.
    """
    settings = conf.current()
    mine = Job.objects.recently_alive(settings.stale_timeout).filter(worker_id=worker_id)
    if running is not None:
        mine = mine.filter(pk__among=frozenset(running))
    return int(mine.update(claim_expires_at=database.now_plus(settings.claim_duration)))


def live_leases(worker_id: str) -> Collection[Lease]:
    """What this worker holds, as the database sees it."""
    held = Job.objects.leased().filter(worker_id=worker_id).values_list("id", "lease_token")
    return {Lease(job_id, token, worker_id) for job_id, token in held}
