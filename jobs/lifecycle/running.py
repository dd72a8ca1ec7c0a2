"""processing → processing: progress and renewal, for leases that are still alive."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs import conf, database, payloads
from jobs.lifecycle.leases import IS_EXPIRED, Lease, is_dead, spared
from jobs.models import Job, Status
from jobs.signals import Progressed, announce_progress


@dataclass(frozen=True, slots=True)
class ProgressReport:
    lease: Lease
    percent: float
    step: str = ""


def report_progress(reports: Sequence[ProgressReport]) -> list[Lease]:
    """Store progress and renew the leases. Returns the leases that are lost; for them nothing was changed."""
    latest = {report.lease: report for report in reports}

    def write() -> set[Lease]:
        with database.atomic():
            kept = _write_progress(list(latest.values()))
            late = spared(latest.keys() - kept) if len(kept) < len(latest) else set()
            return kept | _write_progress([latest[lease] for lease in late], although_expired=True)

    kept = database.when_unlocked(write) if latest else set()
    return [lease for lease in latest if lease not in kept]


def _write_progress(reports: list[ProgressReport], *, although_expired: bool = False) -> set[Lease]:
    """One statement, however many jobs run: status, token, worker and expiry decide, row by row, under its lock."""
    if not reports:
        return set()
    columns = {"id": "text", "token": "bigint", "worker": "text", "percent": "float8", "step": "text"}
    if database.is_postgres():
        typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        source = f"jsonb_to_recordset(%s::jsonb) AS report({typed})"
    else:
        read = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in columns)
        source = f"(SELECT {read} FROM json_each(%s)) AS report"
    rows = [
        {
            "id": report.lease.job_id,
            "token": report.lease.token,
            "worker": report.lease.worker_id,
            "percent": min(100.0, max(0.0, report.percent)),
            "step": payloads.storable(report.step)[:100],
        }
        for report in sorted(reports, key=lambda report: report.lease.job_id)
    ]
    written = database.fetch(
        f"""
        UPDATE jobs_job
        SET progress_percent = report.percent, current_step = report.step,
            last_checkpoint = {database.now_sql()}, claim_expires_at = {database.later_sql()}
        FROM {source}
        WHERE jobs_job.id = report.id AND jobs_job.status = 'processing'
          AND jobs_job.lease_token = report.token AND jobs_job.worker_id = report.worker
          {"" if although_expired else f"AND jobs_job.claim_expires_at > {database.now_sql()}"}
        RETURNING jobs_job.id, jobs_job.lease_token, jobs_job.worker_id, jobs_job.type, jobs_job.workflow_id
        """,
        [conf.current().claim_duration.total_seconds(), json.dumps(rows)],
    )
    announce_progress([Progressed(row[0], *row[3:]) for row in written])
    return {Lease(*row[:3]) for row in written}


def renew(worker_id: str, running: Collection[str] | None = None) -> int:
    """Renew every live lease of this worker whose job has started, or shown progress, within the stale timeout.

    `running`: the jobs that the worker says it runs; whatever else it holds is left to expire.
    """
    settings = conf.current()
    mine = Job.objects.recently_alive(settings.stale_timeout).filter(worker_id=worker_id)
    if running is not None:
        mine = mine.filter(pk__among=frozenset(running))
    later = database.now_plus(settings.claim_duration)
    renewed = int(mine.claimed().update(claim_expires_at=later))
    all_are = running is not None and renewed == len(running)
    if not all_are and mine.expired().exists() and not is_dead(True):
        renewed += int(mine.expired().update(claim_expires_at=later))
    return renewed


def cancelled_among(leases: Collection[Lease]) -> set[Lease]:
    """Those of these leases that ended because their job was cancelled, and whose job has not started over since."""
    if not leases:
        return set()
    jobs = Job.objects.filter(pk__among=frozenset(lease.job_id for lease in leases), status=Status.CANCELLED)
    ended = jobs.values_list("id", "lease_token", "processed_by_worker_id")
    return {Lease(*row) for row in ended} & set(leases)


def live_leases(worker_id: str) -> dict[Lease, datetime]:
    """The leases that this worker holds, as the database sees it, and when each expires; in the order of their
    claims."""
    held = Job.objects.leased().filter(worker_id=worker_id).order_by("claimed_at", "pk")
    rows = list(held.values_list("id", "lease_token", "claim_expires_at", IS_EXPIRED))
    expiry_decides = is_dead(any(row[3] for row in rows))
    return {
        Lease(job_id, token, worker_id): expires_at
        for job_id, token, expires_at, is_expired in rows
        if not (is_expired and expiry_decides)
    }
