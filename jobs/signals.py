"""Joints for other apps, sent inside the transaction that changes the jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.dispatch import Signal


@dataclass(frozen=True, slots=True)
class Transition:
    """One job has moved from one status to another."""

    job_id: str
    type: str
    before: str
    after: str
    workflow_id: str | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class BreakerChange:
    """A breaker has moved from one state to another: closed, open, half-open."""

    name: str
    before: str
    after: str
    reason: str
    """The last failure."""


jobs_changed = Signal()
"""Sent with `transitions: Sequence[Transition]`. A receiver that raises rolls the change back."""


def announce(transitions: Sequence[Transition]) -> None:
    if transitions and jobs_changed.has_listeners(Transition):
        jobs_changed.send(sender=Transition, transitions=transitions)


@dataclass(frozen=True, slots=True)
class Progressed:
    """A running job has told how far it is."""

    job_id: str
    type: str
    workflow_id: str | None


jobs_progressed = Signal()
"""Sent with `progressed: Sequence[Progressed]`, inside the transaction that stores it."""


def announce_progress(progressed: Sequence[Progressed]) -> None:
    if progressed and jobs_progressed.has_listeners(Progressed):
        jobs_progressed.send(sender=Progressed, progressed=progressed)


workers_changed = Signal()
"""Sent with `worker_ids: Collection[str]` for every change of a worker's status, and with each of its heartbeats."""


def announce_workers(worker_ids: Collection[str]) -> None:
    if worker_ids:
        workers_changed.send(sender=None, worker_ids=worker_ids)


breaker_changed = Signal()
"""Sent with `change: BreakerChange`, inside the transaction that changes the breaker."""


def announce_breaker(name: str, before: str, after: str, reason: str) -> None:
    breaker_changed.send(sender=BreakerChange, change=BreakerChange(name, str(before), str(after), reason))


alarm_raised = Signal()
"""Sent with `kind` (jobs/alerts/wording.py knows them) and `facts`: something that people should know has happened."""


def raise_alarm(kind: str, **facts: Any) -> None:
    alarm_raised.send(sender=None, kind=kind, facts=facts)
