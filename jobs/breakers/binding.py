"""Job types that depend on a breaker: what a claim may take of them, and what the end of a job says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from jobs import registry
from jobs.breakers import circuits
from jobs.breakers.policy import Verdict
from jobs.lifecycle.leases import FailureReport, Lease
from jobs.models import BreakerProbe


class Ended(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...


def breaker_of(type_name: str) -> str | None:
    kind = registry.find(type_name)
    return kind.breaker if kind else None


def breakers_of(types: Iterable[str]) -> list[str]:
    return sorted({name for type_name in types if (name := breaker_of(type_name))})


def share_places(
    types: Iterable[str], slots: Mapping[str, int], in_question: Iterable[str]
) -> dict[str, int]:
    """Trial jobs that may start, by type, for the types of these breakers. The places of a breaker go to the first
    type that can use them; a type that is missing here may start as many as it likes: its breaker has closed."""
    of = {name: breaker_of(name) for name in types}
    shares: dict[str, int] = {}
    for breaker in sorted(in_question):
        left = circuits.take_places(breaker)
        if left is None:
            continue
        for name in (name for name in of if of[name] == breaker):
            shares[name] = min(left, slots[name])
            if shares[name]:
                left = 0
    return shares


def note_probes(leases: Iterable[tuple[str, Lease]]) -> None:
    """These jobs are trial calls of these breakers."""
    probes = [BreakerProbe(breaker=name, job_id=lease.job_id, token=lease.token) for name, lease in leases]
    if probes:
        BreakerProbe.objects.bulk_create(probes)


def note_completed(ended: Iterable[Ended]) -> None:
    """In the transaction that completes them. For types without a breaker this costs nothing, for others one SELECT."""
    jobs = _by_breaker(ended)
    for name in circuits.find_disturbed(jobs) if jobs else ():
        circuits.settle(name, Verdict.SUCCESS, job_ids=jobs[name])


def note_failed(ended: Iterable[Ended], failure: FailureReport) -> None:
    """One that is for good, or not counted, is about the job or the worker and says nothing of the service."""
    if failure.permanent or not failure.counted:
        return
    for name, job_ids in sorted(_by_breaker(ended).items()):
        if name not in failure.noted_by:
            circuits.settle(
                name, Verdict.FAILURE, job_ids=job_ids, reason=f"{failure.type}: {failure.message}"
            )


def _by_breaker(ended: Iterable[Ended]) -> dict[str, list[str]]:
    jobs: dict[str, list[str]] = {}
    for row in ended:
        if name := breaker_of(row.type):
            jobs.setdefault(name, []).append(row.id)
    return jobs
