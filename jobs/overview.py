"""snapshot(): how the queue stands now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from django.db.models import Count

from jobs import orchestrator
from jobs.breakers.overview import read_breakers
from jobs.models import Job, Status, Worker
from jobs.priorities import priority_label


def snapshot() -> dict[str, Any]:
    """Depth, ready, scheduled, processing, failed; per type and priority; breakers that are not closed, and why; and
    whether no worker takes new jobs."""
    counts = (
        Job.objects.filter(status__in=(Status.WAITING, Status.PENDING, Status.PROCESSING, Status.FAILED))
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
        if status != Status.FAILED:
            priorities[priority_label(priority)] += count
    workers = Worker.objects.online().filter(stopped_at__isnull=True)
    alive = workers.count()
    return {
        "depth": totals[Status.WAITING] + totals[Status.PENDING] + totals[Status.PROCESSING],
        "ready": totals[Status.PENDING],
        "scheduled": totals[Status.WAITING],
        "processing": totals[Status.PROCESSING],
        "failed": totals[Status.FAILED],
        "types": {name: dict(by_status) for name, by_status in sorted(types.items())},
        "priorities": dict(sorted(priorities.items())),
        "breakers": {
            view.name: {"state": view.state, "reason": view.reason}
            for view in read_breakers(only_rows=True)
            if not view.is_closed
        },
        "workers": alive,
        "shutting_down": alive > 0 and not workers.enabled().filter(draining=False).exists(),
    }


def is_empty(types: Collection[str]) -> bool:
    """Nothing of these types is pending, due or running (blocked jobs become pending while others run)."""
    mine = Job.objects.filter(type__in=types)
    return not (
        mine.filter(status=Status.PENDING).exists()
        or mine.filter(status=Status.PROCESSING).exists()
        or orchestrator.has_due(types)
    )
