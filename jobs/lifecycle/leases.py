"""The lease: the proof that a worker holds a job now. Every write about a running job demands it."""

from __future__ import annotations

import traceback as tracebacks
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from jobs.breakers import marks
from jobs.exceptions import LeaseLost
from jobs.models import Job, Status


@dataclass(frozen=True, slots=True)
class Lease:
    job_id: str
    token: int
    worker_id: str


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """What a worker needs to run a job."""

    lease: Lease
    type: str
    payload: dict[str, Any]
    attempt: int
    max_attempts: int
    correlation_id: str
    priority: int
    submitter: str
    workflow_id: str | None


@dataclass(frozen=True, slots=True)
class FailureReport:
    """How an attempt ended badly."""

    type: str
    message: str
    traceback: str = ""
    permanent: bool = False
    retry_in: timedelta | None = None
    counted: bool = True
    """False: the attempt is given back, as when a worker drains."""
    noted_by: Sequence[str] = ()
    """The breakers that know of it already."""

    @classmethod
    def of(
        cls,
        error: BaseException,
        *,
        permanent: bool = False,
        retry_in: timedelta | None = None,
        counted: bool = True,
    ) -> FailureReport:
        return cls(
            type=type(error).__qualname__,
            message=_message_of(error),
            traceback="".join(tracebacks.format_exception(error)),
            permanent=permanent,
            retry_in=retry_in,
            counted=counted,
            noted_by=marks.noted_by(error),
        )


def _message_of(error: BaseException) -> str:
    """Handlers raise whatever they like, also what cannot be shown."""
    try:
        return str(error) or type(error).__qualname__
    except Exception as trouble:
        return f"{type(error).__qualname__} (its message cannot be shown: {type(trouble).__qualname__})"


@dataclass(frozen=True, slots=True)
class LockedJob:
    """A row under lock: nothing about it changes until this transaction ends."""

    id: str
    type: str
    status: str
    lease_token: int
    worker_id: str | None
    attempt_number: int
    max_attempts: int
    has_dependants: bool
    workflow_id: str | None
    priority: int
    is_expired: bool | None
    """By the database's clock when the lock was asked for, so never too early."""

    def is_under(self, lease: Lease) -> bool:
        """True while this lease lives: the token matches, and its time is not up."""
        return (
            self.status == Status.PROCESSING
            and self.lease_token == lease.token
            and self.worker_id == lease.worker_id
            and not is_dead(self.is_expired)
        )


def is_dead(is_expired: bool | None) -> bool:
    """Whether a lease is over because it has expired, swept or not. Within the recovery grace none is."""
    from jobs.lifecycle.recovering import expiry_counts  # which imports this module

    return bool(is_expired) and expiry_counts()


IS_EXPIRED = ExpressionWrapper(Q(claim_expires_at__lte=Now()), output_field=BooleanField())
"""A column for `values_list`: by the database's clock, the time of the lease is up."""


_COLUMNS = (
    "id",
    "type",
    "status",
    "lease_token",
    "worker_id",
    "attempt_number",
    "max_attempts",
    "has_dependants",
    "workflow_id",
    "priority",
    IS_EXPIRED,
)


def lock(job_ids: Iterable[str]) -> dict[str, LockedJob]:
    """Lock these rows, always in the order of their ids, and only then read them."""
    rows = (
        Job.objects.filter(pk__among=frozenset(job_ids))
        .order_by("pk")
        .select_for_update()
        .values_list(*_COLUMNS)
    )
    return {row[0]: LockedJob(*row) for row in rows}


def spared(leases: Collection[Lease]) -> set[Lease]:
    """Those of these leases that have expired and live on all the same, since expiry does not count now."""
    expired = Job.objects.expired().filter(pk__among=frozenset(lease.job_id for lease in leases))
    late = {Lease(*row) for row in expired.values_list("id", "lease_token", "worker_id")}.intersection(leases)
    return set() if is_dead(bool(late)) else late


def lock_leased(lease: Lease) -> LockedJob:
    """The locked row of a live lease, or LeaseLost. Token and expiry decide."""
    row = lock([lease.job_id]).get(lease.job_id)
    if row is None or not row.is_under(lease):
        raise LeaseLost(lease.job_id)
    return row
