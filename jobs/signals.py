"""Joints for other apps, sent inside the transaction that changes the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


jobs_changed = Signal()
"""Sent with `transitions: Sequence[Transition]`. A receiver that raises rolls the change back."""


def announce(transitions: Sequence[Transition]) -> None:
    if transitions and jobs_changed.has_listeners(Transition):
        jobs_changed.send(sender=Transition, transitions=transitions)
