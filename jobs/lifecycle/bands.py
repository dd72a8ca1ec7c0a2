"""The pending jobs in claim order. A *band* is all pending jobs of one type and one priority.

Bands are found by skipping through the claimable index, so a claim costs the same whether a band holds ten jobs or a
million, and a paused or saturated type costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from jobs import database, prepared
from jobs.database import Subselect
from jobs.lifecycle.rooms import Room


@dataclass(frozen=True, slots=True)
class Band:
    type: str
    priority: int
    waited: float
    """Seconds that its oldest job has been claimable."""


def find_bands(names: Collection[str]) -> list[Band]:
    """Which types and priorities have pending jobs: one index probe per band, most urgent first."""
    if not names:
        return []
    age = (
        "EXTRACT(EPOCH FROM statement_timestamp() - oldest)::float8"
        if database.is_postgres()
        else "(julianday('now') - julianday(oldest)) * 86400.0"
    )
    rows = prepared.fetch(
        f"""
        WITH RECURSIVE kind(type) AS (VALUES {", ".join(["(%s)"] * len(names))}),
        band(type, priority) AS (
            SELECT type, (SELECT min(priority) FROM jobs_job j WHERE j.status = 'pending' AND j.type = kind.type)
            FROM kind
            UNION ALL
            SELECT type, (SELECT min(priority) FROM jobs_job j WHERE j.status = 'pending' AND j.type = band.type
                                                               AND j.priority > band.priority)
            FROM band WHERE priority IS NOT NULL
        ),
        head AS (
            SELECT type, priority,
                   (SELECT min(run_at) FROM jobs_job j WHERE j.status = 'pending' AND j.type = band.type
                                                         AND j.priority = band.priority) AS oldest
            FROM band WHERE priority IS NOT NULL
        )
        SELECT type, priority, {age} FROM head WHERE oldest IS NOT NULL ORDER BY priority, oldest
        """,
        list(names),
    )
    return [Band(*row) for row in rows]


def candidates(
    bands: Iterable[Band],
    rooms: dict[str, Room],
    limit: int,
    *,
    min_age: float = 0.0,
    order: str = "priority, run_at, id",
) -> Subselect:
    """The first ids over all bands, merged: no type contributes more than it has room for."""
    by_type: dict[str, list[Band]] = {}
    for band in bands:
        by_type.setdefault(band.type, []).append(band)
    parts, params = [], []
    for name, own in by_type.items():
        room = rooms[name]
        age = max(min_age, room.min_age)
        heads = []
        for band in own:
            heads.append(
                "SELECT * FROM (SELECT id, priority, run_at FROM jobs_job"
                " WHERE status = 'pending' AND type = %s AND priority = %s"
                + (f" AND run_at <= {_moment_ago()}" if age else "")
                + " ORDER BY run_at, id LIMIT %s) AS band"
            )
            params += [name, band.priority, *([age] if age else []), min(room.slots, limit)]
        parts.append(f"SELECT * FROM ({' UNION ALL '.join(heads)}) AS bands ORDER BY {order} LIMIT %s")
        params.append(min(room.slots, limit))
    if len(parts) == 1:
        return Subselect(f"SELECT id FROM ({parts[0]}) AS type", params)
    merged = " UNION ALL ".join(f"SELECT * FROM ({part}) AS type" for part in parts)
    return Subselect(f"SELECT id FROM ({merged}) AS types ORDER BY {order} LIMIT %s", [*params, limit])


def _moment_ago() -> str:
    if database.is_postgres():
        return "statement_timestamp() - %s * interval '1 second'"
    return "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-' || %s || ' seconds')"
