"""How many jobs are where, by type, status and priority: one statement, by index, each count bounded."""

from __future__ import annotations

from collections import defaultdict

from jobs import database
from jobs.metrics import catalogue
from jobs.metrics.exposition import Metric, Sample
from jobs.priorities import LOW, NORMAL

COUNTED = 10_000
"""Of one type and priority (pending) or of one status (the others) no more than this are counted."""

_LEVELS = {
    "high": f"priority < {NORMAL}",
    "normal": f"priority >= {NORMAL} AND priority < {LOW}",
    "low": f"priority >= {LOW}",
}
"""Priorities are any numbers, labels should be few."""
_LEVEL = " ".join(f"WHEN {condition} THEN '{name}'" for name, condition in _LEVELS.items())

_OTHERS = (
    # status, condition and order that make an index the cheapest way
    ("waiting", "status = 'waiting' AND NOT blocked", "run_at"),
    ("waiting", "status = 'waiting' AND blocked", "id"),
    ("processing", "status = 'processing'", "worker_id"),
    ("failed", "status = 'failed'", "id"),
)


def read_depth() -> list[tuple[Metric, list[Sample]]]:
    depth: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    ages: list[Sample] = []
    for type_name, status, level, count, age in database.fetch(_sql()):
        if status == "head":
            ages.append(Sample(max(0.0, age), {"type": type_name}))
        elif count:
            depth[type_name, status, level] += count
    jobs = [
        Sample(count, {"type": type_name, "status": status, "priority": level})
        for (type_name, status, level), count in sorted(depth.items())
    ]
    return [(catalogue.DEPTH, jobs), (catalogue.PENDING_AGE, ages)]


def _sql() -> str:
    age = (
        "EXTRACT(EPOCH FROM statement_timestamp() - {})::float8"
        if database.is_postgres()
        else "(julianday('now') - julianday({})) * 86400.0"
    )
    pending = "FROM jobs_job j WHERE j.status = 'pending'"
    # The types of pending jobs, by skipping through their index.
    kinds = f"""
        kind(type) AS (
            SELECT (SELECT min(j.type) {pending})
            UNION ALL
            SELECT (SELECT min(j.type) {pending} AND j.type > kind.type) FROM kind WHERE kind.type IS NOT NULL
        )"""
    counts = [
        f"""
        SELECT kind.type, 'pending', '{level}',
               (SELECT count(*) FROM (SELECT 1 {pending} AND j.type = kind.type AND {condition}
                                      ORDER BY j.priority, j.run_at, j.id LIMIT {COUNTED}) AS counted), NULL
        FROM kind WHERE kind.type IS NOT NULL"""
        for level, condition in _LEVELS.items()
    ]
    others = [
        f"""
        SELECT type, '{status}', level, count(*), NULL
        FROM (SELECT type, CASE {_LEVEL} END AS level FROM jobs_job WHERE {condition}
              ORDER BY {order} LIMIT {COUNTED}) AS counted GROUP BY type, level"""
        for status, condition, order in _OTHERS
    ]
    head = f"(SELECT j.run_at {pending} AND j.type = kind.type ORDER BY j.priority, j.run_at, j.id LIMIT 1)"
    # First, since PostgreSQL takes the columns' types from there.
    ages = f"SELECT kind.type, 'head', '', 0, {age.format(head)} FROM kind WHERE kind.type IS NOT NULL"
    return f"WITH RECURSIVE {kinds} {' UNION ALL '.join([ages, *counts, *others])}"
