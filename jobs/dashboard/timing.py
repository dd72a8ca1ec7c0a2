"""How long jobs wait and run: percentiles of the newest runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jobs import database
from jobs.dashboard import words

SAMPLE = 500
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Timing:
    runs: int
    waited: Sequence[str]
    ran: Sequence[str]
    """By PERCENTILES."""
    typical: dict[str, float]
    """Seconds that half of the runs of a type take at most."""


def read_timing() -> Timing:
    rows = database.fetch(_sql())
    waits = [max(0.0, wait) for _, wait, _ in rows if wait is not None]
    runs = [max(0.0, run) for _, _, run in rows]
    by_type: defaultdict[str, list[float]] = defaultdict(list)
    for name, _, run in rows:
        by_type[name].append(max(0.0, run))
    return Timing(
        len(rows),
        [words.fine_duration(percentile(waits, rank)) for rank in PERCENTILES] if waits else [],
        [words.fine_duration(percentile(runs, rank)) for rank in PERCENTILES] if runs else [],
        {name: percentile(own, 50) for name, own in by_type.items()},
    )


def percentile(values: Sequence[float], rank: float) -> float:
    """The smallest value that is not exceeded by so many percent of them."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * rank / 100) - 1)]


def _sql() -> str:
    """The newest attempts that have ended, each with its job, found by its key. `run_at` says since when a job could be
    claimed; it is that of the last run, so earlier ones say nothing about waiting."""
    postgres = database.is_postgres()
    newest = f"SELECT * FROM jobs_attempt WHERE id > (SELECT max(id) FROM jobs_attempt) - {4 * SAMPLE}"
    ended = f"{newest} AND outcome IN ('completed', 'failed') ORDER BY id DESC LIMIT {SAMPLE}"
    seconds = (
        "EXTRACT(EPOCH FROM {1} - {0})::float8" if postgres else "(julianday({1}) - julianday({0})) * 86400.0"
    )
    job = (
        "CROSS JOIN LATERAL (SELECT * FROM jobs_job WHERE id = run.job_id LIMIT 1) AS job"
        if postgres
        else "CROSS JOIN jobs_job AS job WHERE job.id = run.job_id"
    )
    return f"""
        SELECT job.type,
               CASE WHEN job.status = 'completed' AND job.lease_token = run.token
                    THEN {seconds.format("job.run_at", "run.started_at")} END,
               {seconds.format("run.started_at", "run.finished_at")}
        FROM ({ended}) AS run {job}
    """
