"""What people do to jobs, as the admin offers it: the lifecycle's verbs with their words and conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Q

from jobs import lifecycle
from jobs.models import FINISHED, Job, Status
from jobs.priorities import priority_label


@dataclass(frozen=True)
class Order:
    """Who wants it; and the priority, where that is what changes."""

    actor: str
    priority: int | None = None


@dataclass(frozen=True)
class Verb:
    name: str
    label: str
    done: str
    """As in "3 jobs retried"."""
    statuses: tuple[Status, ...]
    """It concerns jobs in one of these; others stay as they are."""
    consequence: str
    do: Callable[[list[str], Order], list[str]]
    """On ids that are concerned; returns all that changed."""
    unblocked_only: bool = False
    permission: str = "change"
    asks_priority: bool = False
    is_dangerous: bool = False

    def is_possible(self, job: Job) -> bool:
        return job.status in self.statuses and not (self.unblocked_only and job.blocked)

    @property
    def condition(self) -> Q:
        """The same, as a filter."""
        statuses = Q(status__in=[status.value for status in self.statuses])
        return statuses & Q(blocked=False) if self.unblocked_only else statuses

    def past_tense(self, order: Order) -> str:
        if order.priority is None:
            return self.done
        return f"{self.done} {priority_label(order.priority)}"


def _retry(ids: list[str], order: Order) -> list[str]:
    return lifecycle.retry(ids, actor=order.actor)


def _run_now(ids: list[str], order: Order) -> list[str]:
    return lifecycle.run_now(ids, actor=order.actor)


def _change_priority(ids: list[str], order: Order) -> list[str]:
    assert order.priority is not None
    return lifecycle.change_priority(ids, order.priority, actor=order.actor)


def _cancel(ids: list[str], order: Order) -> list[str]:
    return lifecycle.cancel(ids, actor=order.actor)


def _discard(ids: list[str], order: Order) -> list[str]:
    lifecycle.discard(ids)
    return ids


VERBS = (
    Verb(
        "retry",
        "Retry",
        "retried",
        (Status.FAILED, Status.CANCELLED),
        "They start over with all their attempts ahead. What their failure had cancelled comes back, too.",
        _retry,
    ),
    Verb(
        "run_now",
        "Run now",
        "made pending",
        (Status.WAITING,),
        "They no longer wait for their time; a worker may take them at once.",
        _run_now,
        unblocked_only=True,
    ),
    Verb(
        "change_priority",
        "Change priority",
        "given priority",
        (Status.WAITING, Status.PENDING),
        "Lower numbers run first. Jobs that have started keep theirs.",
        _change_priority,
        asks_priority=True,
    ),
    Verb(
        "cancel",
        "Cancel",
        "cancelled",
        (Status.WAITING, Status.PENDING, Status.PROCESSING),
        "Running handlers are told to stop. Jobs that depend on them are cancelled, too.",
        _cancel,
        is_dangerous=True,
    ),
    Verb(
        "discard",
        "Discard",
        "discarded",
        FINISHED,
        "They are deleted for good, with their attempts and events.",
        _discard,
        permission="discard",
        is_dangerous=True,
    ),
)

BY_NAME = {verb.name: verb for verb in VERBS}
