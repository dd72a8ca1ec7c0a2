"""What the tests of breakers share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jobs import database, enqueue, lifecycle
from jobs.lifecycle import FailureReport
from jobs.models import Breaker, Worker
from tests.support.queue.actors import claim_one

PLAIN = FailureReport("ConnectionError", "no answer")


def state_of(name: str = "payments") -> str:
    row = Breaker.objects.filter(pk=name).first()
    return "closed" if row is None else str(row.state)


def fail_one(
    type_name: str = "here.charge", failure: FailureReport = PLAIN, *, worker: Worker | None = None
) -> None:
    """A job of this type runs and fails."""
    enqueue(type_name, priority=-100)
    claimed = claim_one(worker)
    assert claimed.type == type_name
    lifecycle.fail(claimed.lease, failure)


def open_breaker(name: str = "payments", **fields: Any) -> None:
    """As if it had just been opened."""
    values = {
        "state": "open",
        "failures": 5,
        "retry_at": database.now_plus(timedelta(minutes=1)),
        "reason": "ConnectionError: no answer",
        **fields,
    }
    Breaker.objects.update_or_create(name=name, defaults=values)


def cooldown_over(name: str = "payments") -> None:
    """As if an open breaker's cooldown had just passed."""
    changed = Breaker.objects.filter(pk=name, state="open").update(
        retry_at=database.now_minus(timedelta(seconds=1))
    )
    assert changed == 1
