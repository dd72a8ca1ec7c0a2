"""snapshot(): how the queue stands now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from django.db.models import Count

from jobs import fleet, orchestrator
from jobs.breakers.overview import read_breakers
from jobs.models import ACTIVE, Job, Status
from jobs.priorities import priority_label


def snapshot() -> dict[str, Any]:
    """The statistics of the queue.

    `depth` is what is queued: `ready` (may be claimed now) and `scheduled` (waits for its time or a prerequisite).
    Beside it `processing`, `completed` (until it is pruned) and `failed`; `types` and `priorities` say of what, the
    latter of the jobs that have not ended; `breakers` are those that are not closed, and why; `workers` is how many
    are alive; `shutdown` is true when those take no new jobs, being drained or disabled.
    """
    counts = (
        Job.objects.exclude(status=Status.CANCELLED)
        .values_list("status", "type", "priority")
        .annotate(Count("pk"))
        .order_by()
    )
    totals: dict[str, int] = defaultdict(int)
    types: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    priorities: dict[str, int] = defaultdict(int)
    for status, type_name, priority, count in counts:
        totals[status] += count
        types[type_name][status] += count
        if status in ACTIVE:
            priorities[priority_label(priority)] += count
    workers = fleet.living()
    return {
        "depth": totals[Status.PENDING] + totals[Status.WAITING],
        "ready": totals[Status.PENDING],
        "scheduled": totals[Status.WAITING],
        "processing": totals[Status.PROCESSING],
        "completed": totals[Status.COMPLETED],
        "failed": totals[Status.FAILED],
        "types": {name: dict(by_status) for name, by_status in sorted(types.items())},
        "priorities": dict(sorted(priorities.items())),
        "breakers": {
            view.name: {"state": view.state, "reason": view.reason}
            for view in read_breakers(only_rows=True)
            if not view.is_closed
        },
        "workers": len(workers),
        "shutdown": bool(workers) and all(worker.order for worker in workers),
    }


def is_empty(types: Collection[str]) -> bool:
    """Nothing of these types is pending, due or running (blocked jobs become pending while others run)."""
    mine = Job.objects.filter(type__in=types)
    return not (
        mine.filter(status=Status.PENDING).exists()
        or mine.filter(status=Status.PROCESSING).exists()
        or orchestrator.has_due(types)
    )
