"""How many jobs are where. Counted by index up to a bound; beyond it, PostgreSQL's own estimate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from jobs import database
from jobs.dashboard import words

COUNTED = 10_000
"""A status is counted no further than this."""
COUNTED_OF_A_TYPE = 1_000

_INDEXES = {
    "running": ("status = 'processing'", "worker_id", "jobs_leased"),
    # what: (condition, order that makes the index the cheapest way, index)
    "pending": ("status = 'pending'", "type, priority, run_at, id", "jobs_claimable"),
    "scheduled": ("status = 'waiting' AND NOT blocked", "run_at", "jobs_due"),
    "blocked": ("status = 'waiting' AND blocked", "id", "jobs_blocked"),
    "failed": ("status = 'failed'", "id", "jobs_dead_letters"),
}


@dataclass(frozen=True)
class Count:
    value: int
    """Exactly, unless it says otherwise."""
    is_estimate: bool = False
    is_bound: bool = False

    def __str__(self) -> str:
        if self.is_estimate:
            return f"≈ {words.number(self.value)}"
        return f"{words.number(self.value)}+" if self.is_bound else f"{self.value:,}"

    def __bool__(self) -> bool:
        return self.value > 0


@dataclass(frozen=True)
class Depth:
    running: Count
    pending: Count
    scheduled: Count
    blocked: Count
    failed: Count
    any_job: bool
    """Somebody has enqueued something, ever."""
    now: datetime


def read_depth() -> Depth:
    postgres = database.is_postgres()
    counts = ", ".join(
        f"(SELECT count(*) FROM (SELECT 1 FROM jobs_job WHERE {condition}"
        f" ORDER BY {order} LIMIT {COUNTED + 1}) AS counted)"
        for condition, order, _ in _INDEXES.values()
    )
    estimates = ", ".join(
        f"(SELECT reltuples FROM pg_class WHERE oid = to_regclass('{index}'))" if postgres else "NULL"
        for _, _, index in _INDEXES.values()
    )
    row = database.fetch(
        f"""
        SELECT {database.now_sql()}, (SELECT id FROM jobs_job ORDER BY id LIMIT 1) IS NOT NULL,
               {counts}, {estimates}
        """
    )[0]
    numbers, kinds = row[2:], len(_INDEXES)
    found = {
        what: _count(counted, estimate)
        for what, counted, estimate in zip(_INDEXES, numbers[:kinds], numbers[kinds:], strict=True)
    }
    return Depth(
        **found,
        now=database.moment(row[0]),
        any_job=bool(row[1]),
    )


def _count(counted: int, estimate: float | None) -> Count:
    if counted <= COUNTED:
        return Count(counted)
    if estimate is not None and estimate > COUNTED:
        return Count(int(estimate), is_estimate=True)
    return Count(COUNTED, is_bound=True)


@dataclass(frozen=True)
class TypeDepth:
    pending: Count
    oldest: datetime | None
    """Claimable since."""


def read_types(names: Collection[str]) -> dict[str, TypeDepth]:
    """The pending jobs of these types: a few index probes each."""
    if not names:
        return {}
    rows = database.fetch(
        f"""
        WITH kind(type) AS (VALUES {", ".join(["(%s)"] * len(names))})
        SELECT kind.type,
               (SELECT count(*) FROM (SELECT 1 FROM jobs_job j WHERE j.status = 'pending' AND j.type = kind.type
                                      ORDER BY j.priority, j.run_at, j.id LIMIT {COUNTED_OF_A_TYPE + 1}) AS counted),
               (SELECT j.run_at FROM jobs_job j WHERE j.status = 'pending' AND j.type = kind.type
                ORDER BY j.priority, j.run_at, j.id LIMIT 1)
        FROM kind
        """,
        list(names),
    )
    return {
        name: TypeDepth(
            Count(min(count, COUNTED_OF_A_TYPE), is_bound=count > COUNTED_OF_A_TYPE),
            database.moment(oldest) if oldest else None,
        )
        for name, count, oldest in rows
    }
