"""How much of the jobs' table a page may look at, so that a list costs the same with a thousand and ten million rows.

Where an index of its own leads to the jobs that the filters ask for, and there are no more than WINDOW of them, all
are shown. Otherwise the page shows what matches among the newest WINDOW jobs, or the newest before a given one,
and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs import database
from jobs.database import Subselect
from jobs.models import Status

WINDOW = 20_000

STATUSES_OF = {
    "unclaimed": (Status.WAITING, Status.PENDING),
    "retrying": (Status.WAITING, Status.PENDING),
    "claimed": (Status.PROCESSING,),
    "expired": (Status.PROCESSING,),
    "completed": (Status.COMPLETED,),
    "failed": (Status.FAILED,),
}
"""In which statuses the jobs of a derived state are."""

_INDEXED = {
    Status.PENDING: (("status = 'pending'", "type, priority, run_at, id"),),
    Status.WAITING: (
        ("status = 'waiting' AND NOT blocked", "run_at"),
        ("status = 'waiting' AND blocked", "id"),
    ),
    Status.PROCESSING: (("status = 'processing'", "worker_id"),),
    Status.FAILED: (("status = 'failed'", "id"),),
}
"""The condition and the order of each partial index: in its own order, no planner prefers to read the table instead."""


@dataclass(frozen=True)
class Chosen:
    """What the page's filters ask for."""

    status: str = ""
    state: str = ""
    type: str = ""
    workflow: str = ""
    floor: str = ""
    """Ids from here on, by the date."""
    ceiling: str = ""
    """Ids below this one."""

    @property
    def statuses(self) -> frozenset[str]:
        asked = {self.status} if self.status else set(Status.values)
        return frozenset(asked & set(STATUSES_OF.get(self.state, Status.values)))


@dataclass(frozen=True)
class Window:
    is_whole: bool
    """Nothing that matches lies outside."""
    subset: Subselect | None = None
    floor: str = ""
    """The oldest id inside; empty: as old as there are."""

    def applied_to(self, jobs: Any) -> Any:
        if self.subset is not None:
            return jobs.filter(pk__among=self.subset)
        return jobs.filter(pk__gte=self.floor) if self.floor else jobs


def find_window(chosen: Chosen, size: int = WINDOW) -> Window:
    subset = _indexed_subset(chosen, size + 1)
    if subset is not None and _count(subset) <= size:
        return Window(is_whole=True, subset=subset)
    dead_letters = chosen.statuses == {Status.FAILED}
    floor = _nth_newest(size, chosen, "status = 'failed'" if dead_letters else "true")
    return Window(is_whole=not floor, floor=floor or chosen.floor)


def _indexed_subset(chosen: Chosen, limit: int) -> Subselect | None:
    """The ids that an index gives, up to the limit; None: there is no index for what is asked."""
    if chosen.workflow:
        sql = f"SELECT id FROM jobs_job WHERE workflow_id = %s ORDER BY workflow_id LIMIT {limit}"
        return Subselect(sql, [chosen.workflow])
    if not chosen.statuses or not all(status in _INDEXED for status in chosen.statuses):
        return None
    parts: list[str] = []
    params: list[Any] = []
    for status in sorted(chosen.statuses):
        for condition, order in _INDEXED[Status(status)]:
            if status == Status.PENDING and chosen.type:
                condition, params = f"{condition} AND type = %s", [*params, chosen.type]
            parts.append(
                f"SELECT id FROM (SELECT id FROM jobs_job WHERE {condition} ORDER BY {order} LIMIT {limit}) AS part"
            )
    return Subselect(" UNION ALL ".join(parts), params)


def _count(subset: Subselect) -> int:
    return int(database.fetch(f"SELECT count(*) FROM ({subset.sql}) AS counted", subset.params)[0][0])


def _nth_newest(n: int, chosen: Chosen, condition: str) -> str:
    """The id with which n of the newest jobs end, if there are older ones."""
    params: list[Any] = []
    for bound, comparison in ((chosen.ceiling, "<"), (chosen.floor, ">=")):
        if bound:
            condition, params = f"{condition} AND id {comparison} %s", [*params, bound]
    rows = database.fetch(
        f"SELECT id FROM jobs_job WHERE {condition} ORDER BY id DESC LIMIT 2 OFFSET {n - 1}", params
    )
    return rows[0][0] if len(rows) == 2 else ""
