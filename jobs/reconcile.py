"""Make the records agree with what exists: dead leases, artifacts, and each other (repairs.py). Jobs under a live lease
are never touched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from django.db import IntegrityError

from jobs import database, recovery, registry, repairs
from jobs.exceptions import TransitionRefused
from jobs.fleet import proof_of_death
from jobs.lifecycle.leases import lock
from jobs.lifecycle.recovering import dead_leases, expiry_counts
from jobs.models import Job, Status, Worker
from jobs.registry import JobType

log = logging.getLogger("jobs.reconcile")

BATCH = 500


@dataclass(frozen=True)
class Finding:
    """One record that disagrees with the world, and what it becomes."""

    job_id: str
    type: str
    status: str
    becomes: str
    why: str

    def __str__(self) -> str:
        return f"{self.type} {self.job_id}: {self.status} → {self.becomes} ({self.why})"


Repair = Callable[[bool], Iterable[Finding]]
_repairs: list[Repair] = []


def also_repairs(repair: Repair) -> Repair:
    """Register what an app has to make right besides its jobs. It gets `dry_run` and gives what it found."""
    _repairs.append(repair)
    return repair


def reconcile(*, dry_run: bool = False, thorough: bool = False) -> list[Finding]:
    """Repair, and return what was (or, in a dry run, would be) changed. `thorough`: also the records of jobs that
    somebody has changed by hand, for which every job is read."""
    findings = _dead_leases(dry_run=dry_run)
    for kind in registry.all_types():
        if kind.artifact:
            for finding in _artifact_findings(kind):
                if dry_run or _repair(finding):
                    findings.append(finding)
    findings.extend(_stale_marks({finding.job_id for finding in findings}, dry_run=dry_run))
    if thorough:
        found = repairs.mend(dry_run=dry_run)
        findings += [Finding(one.job_id, one.type, one.before, one.after, one.why) for one in found]
    for repair in _repairs:
        try:
            findings.extend(repair(dry_run))
        except Exception:
            log.exception("%s failed; what it looks after stays as it is", repair.__qualname__)
    for finding in findings:
        log.info("%s%s", "would repair " if dry_run else "repaired ", finding)
    return findings


def _dead_leases(*, dry_run: bool) -> list[Finding]:
    findings: dict[str, Finding] = {}
    gone = {
        worker.pk: proof
        for worker in Worker.objects.filter(running_jobs__isnull=False).distinct()
        if (proof := proof_of_death(worker))
    }
    for job in Job.objects.leased().filter(worker__in=gone).defer("payload", "result"):
        findings[job.id] = _recovered(job, gone[str(job.worker_id)])
    if expiry_counts(of_remote=False):
        for job in dead_leases().defer("payload", "result"):
            findings.setdefault(job.id, _recovered(job, "its lease expired"))
    if not dry_run and findings:
        changed = {*recovery.bury_the_dead(list(gone)), *recovery.end_expired_leases()}
        findings = {job_id: finding for job_id, finding in findings.items() if job_id in changed}
    return list(findings.values())


def _recovered(job: Job, why: str) -> Finding:
    spent = job.attempt_number >= job.max_attempts
    return Finding(job.id, job.type, job.status, Status.FAILED if spent else Status.PENDING, why)


def _artifact_findings(kind: JobType) -> Iterator[Finding]:
    """Ask the type about every job of it that no worker is running."""
    assert kind.artifact is not None
    jobs = Job.objects.filter(type=kind.name).exclude(status=Status.PROCESSING).order_by("pk")
    last = ""
    while batch := list(jobs.filter(pk__gt=last).values_list("pk", "status", "payload")[:BATCH]):
        last = batch[-1][0]
        for job_id, status, payload in batch:
            try:
                exists = kind.artifact(payload)
            except Exception:
                log.exception(
                    "the artifact check of %s failed for job %s; its record stays as it is", kind.name, job_id
                )
                continue
            if exists is None:
                continue  # no opinion
            if exists and status != Status.COMPLETED:
                yield Finding(job_id, kind.name, status, Status.COMPLETED, "its artifact exists")
            elif not exists and status == Status.COMPLETED:
                yield Finding(job_id, kind.name, status, Status.PENDING, "its artifact is missing")


def _stale_marks(known: Collection[str], *, dry_run: bool) -> list[Finding]:
    """Of jobs that are not known to be wrong for another reason, whose repair takes the marks away as well."""
    stale = Job.objects.with_stale_marks().order_by("pk")
    findings: list[Finding] = []
    last = ""
    while batch := list(stale.filter(pk__gt=last).values_list("pk", "type", "status")[:BATCH]):
        last = batch[-1][0]
        if not dry_run:
            same = Job.objects.with_stale_marks().filter(pk__among=[job_id for job_id, _, _ in batch])
            same.exclude(status=Status.COMPLETED).update(claimed_at=None)
            same.filter(status=Status.COMPLETED).update(last_error="")
        findings += [
            Finding(job_id, type_name, status, status, "it still had the mark of an earlier attempt")
            for job_id, type_name, status in batch
            if job_id not in known
        ]
    return findings


def _repair(finding: Finding) -> bool:
    """Under the row's lock, and only if the record still says what it said."""
    try:
        with database.atomic():
            row = lock([finding.job_id]).get(finding.job_id)
            if row is None or row.status != finding.status:
                return False
            repairs.restore(row.id, Status(finding.becomes), finding.why)
    except TransitionRefused as refusal:
        log.warning("job %s stays %s: %s", finding.job_id, finding.status, refusal)
        return False
    except IntegrityError:
        log.warning("job %s stays %s: another active job has its unique key", finding.job_id, finding.status)
        return False
    return True
