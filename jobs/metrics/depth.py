"""How many jobs are where, by type, status and priority: one statement, by index, each count bounded."""

from __future__ import annotations

from jobs import database, registry
from jobs.metrics import catalogue
from jobs.metrics.exposition import Metric, Sample
from jobs.priorities import labels

COUNTED = 10_000
"""Of one type and priority (pending) or of one status (the others) no more than this are counted."""

_OTHERS = (
    # status, condition and order that make an index the cheapest way
    ("waiting", "status = 'waiting' AND NOT blocked", "run_at"),
    ("waiting", "status = 'waiting' AND blocked", "id"),
    ("processing", "status = 'processing'", "worker_id"),
    ("failed", "status = 'failed'", "id"),
)


STATUSES = ("pending", "waiting", "processing", "failed")


def read_depth() -> list[tuple[Metric, list[Sample]]]:
    """Of types that this site knows there is always a sample per status: whoever scales by them must see the zero."""
    known = [kind.name for kind in registry.all_types()]
    depth = {(name, status, "normal"): 0 for name in known for status in STATUSES}
    ages = dict.fromkeys(known, 0.0)
    for type_name, status, level, count, age in database.fetch(_sql()):
        if status == "head":
            ages[type_name] = max(0.0, age)
        elif count:
            depth[type_name, status, level] = depth.get((type_name, status, level), 0) + count
    jobs = [
        Sample(count, {"type": type_name, "status": status, "priority": level})
        for (type_name, status, level), count in sorted(depth.items())
    ]
    heads = [Sample(age, {"type": type_name}) for type_name, age in sorted(ages.items())]
    return [(catalogue.DEPTH, jobs), (catalogue.PENDING_AGE, heads)]


def _levels() -> dict[str, str]:
    """The condition of each label: from its number to that of the next one. The first has whatever is below, too."""
    named = list(labels().items())
    ends = [f"priority < {number}" for _, number in named[1:]] + ["true"]
    starts = ["true"] + [f"priority >= {number}" for _, number in named[1:]]
    return {name: f"{start} AND {end}" for (name, _), start, end in zip(named, starts, ends, strict=True)}


def _sql() -> str:
    levels = _levels()
    level_of = " ".join(f"WHEN {condition} THEN '{name}'" for name, condition in levels.items())
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
        for level, condition in levels.items()
    ]
    others = [
        f"""
        SELECT type, '{status}', level, count(*), NULL
        FROM (SELECT type, CASE {level_of} END AS level FROM jobs_job WHERE {condition}
              ORDER BY {order} LIMIT {COUNTED}) AS counted GROUP BY type, level"""
        for status, condition, order in _OTHERS
    ]
    head = f"(SELECT j.run_at {pending} AND j.type = kind.type ORDER BY j.priority, j.run_at, j.id LIMIT 1)"
    # First, since PostgreSQL takes the columns' types from there.
    ages = f"SELECT kind.type, 'head', '', 0, {age.format(head)} FROM kind WHERE kind.type IS NOT NULL"
    return f"WITH RECURSIVE {kinds} {' UNION ALL '.join([ages, *counts, *others])}"
