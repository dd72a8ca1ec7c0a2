"""What the tests of workflows share: jobs with names, claimed and ended by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobs import lifecycle
from jobs.lifecycle import FailureReport, Lease
from jobs.models import Job
from tests.support.queue.actors import new_worker

PERMANENT = FailureReport("ValueError", "no", permanent=True)


def claim_named(*names: str) -> list[Lease]:
    """Claim all that is pending, which must be exactly these; their leases, in this order."""
    leases = {claimed.payload["name"]: claimed.lease for claimed in lifecycle.claim(new_worker(), 100)}
    assert sorted(leases) == sorted(names)
    return [leases[name] for name in names]


def complete(*names: str) -> None:
    """Exactly these are pending; they run and complete."""
    for lease in claim_named(*names):
        lifecycle.complete(lease)


def fail(name: str) -> None:
    """Exactly this one is pending; it runs and fails for good."""
    (lease,) = claim_named(name)
    lifecycle.fail(lease, PERMANENT)


def statuses(names: Iterable[str] = ()) -> dict[str, str]:
    """The status of each job, by its name."""
    found: Any = Job.objects.values_list("payload", "status")
    return {payload["name"]: status for payload, status in found if not names or payload["name"] in names}


def id_of(name: str) -> str:
    (job_id,) = [pk for pk, payload in Job.objects.values_list("pk", "payload") if payload["name"] == name]
    return str(job_id)
