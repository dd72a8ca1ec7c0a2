"""How many runs ended in which minute. Counted by the sweep, afterwards: a job's way costs nothing more for it.

Attempts have ascending numbers. The mark says up to which number they have been looked at, and which of those had
not ended then; so every attempt is counted once, when it is first seen ended, and only new rows are ever read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobs import database, run_totals
from jobs.models import CountingMark, Minute, Outcome
from jobs.run_totals import Group

KEPT = timedelta(days=2)
SETTLED_AFTER = 5.0
"""Seconds after which no claim can still be about to commit with a lower number than one that is visible."""
BATCH = 50_000
BATCHES = 20
"""In one sweep; what is left is counted by the next."""
FRESH = 10_000
"""Attempts that a reader counts by itself, beyond the mark."""


@dataclass
class Ended:
    completed: int = 0
    failed: int = 0

    def add(self, completed: int, failed: int) -> None:
        self.completed += completed
        self.failed += failed


def count_minutes() -> None:
    """Move the mark on; one at a time."""
    with database.atomic(savepoint=False):
        mark, _ = CountingMark.objects.select_for_update().get_or_create(pk=1)
        before = (mark.attempt, mark.still_open)
        found = _move(mark)
        for at, minute in Minute.objects.in_bulk(list(found)).items():
            found[at].add(minute.completed, minute.failed)
        Minute.objects.bulk_create(
            [Minute(at=at, completed=ended.completed, failed=ended.failed) for at, ended in found.items()],
            update_conflicts=True,
            update_fields=["completed", "failed"],
            unique_fields=["at"],
        )
        if (mark.attempt, mark.still_open) != before:
            mark.save()
        Minute.objects.filter(at__lt=database.now_minus(KEPT)).delete()


def _move(mark: CountingMark) -> dict[datetime, Ended]:
    found: defaultdict[datetime, Ended] = defaultdict(Ended)
    for _ in range(BATCHES):
        upto = _settled_upto(mark.attempt)
        if upto == mark.attempt and not mark.still_open:
            break  # nothing has happened since
        groups, still_open = _look(mark.attempt, upto, mark.still_open)
        for at, group in groups:
            found[at].add(*_as_ended(group))
        run_totals.add(group for _, group in groups)
        is_last = upto - mark.attempt < BATCH
        mark.attempt, mark.still_open = upto, still_open
        if is_last:
            break
    return found


def _as_ended(group: Group) -> tuple[int, int]:
    """How many of these completed, how many failed."""
    return (
        group.count if group.outcome == Outcome.COMPLETED else 0,
        group.count if group.outcome in (Outcome.FAILED, Outcome.LOST) else 0,
    )


def _settled_upto(attempt: int) -> int:
    old = (
        "started_at <= statement_timestamp() - %s * interval '1 second'"
        if database.is_postgres()
        else "started_at <= strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-' || %s || ' seconds')"
    )
    rows = database.fetch(
        f"""
        SELECT max(id) FROM (SELECT id, started_at FROM jobs_attempt WHERE id > %s ORDER BY id LIMIT {BATCH}) AS next
        WHERE {old}
        """,
        [attempt, SETTLED_AFTER],
    )
    return rows[0][0] or attempt


def _look(
    above: int, upto: int, still_open: Collection[int]
) -> tuple[list[tuple[datetime, Group]], list[int]]:
    """The attempts between these numbers, and those: what ended in which minute, and which have not ended.

    In one statement, so that none ends between two looks.
    """
    looked, params = _looked(above, upto, still_open, _COLUMNS)
    ran = f"CASE WHEN outcome IN ('completed', 'failed') THEN {_between('started_at', 'finished_at')} END"
    # A job's run_at is that of its last run, so earlier ones say nothing about waiting.
    waited = f"CASE WHEN outcome = 'completed' AND is_last THEN {_between('claimable_at', 'started_at')} END"
    rows = database.fetch(
        f"""
        WITH looked AS ({looked}),
        ended AS (
            SELECT {_minute_sql()} AS minute, type, outcome,
                   CASE WHEN outcome IN ('failed', 'lost') AND number >= max_attempts THEN 1 ELSE 0 END AS exhausted,
                   {ran} AS ran, {waited} AS waited
            FROM ({_with_jobs()}) AS run WHERE finished_at IS NOT NULL
        )
        SELECT minute, type, outcome, exhausted, {run_totals.bucket_sql("ran")}, {run_totals.bucket_sql("waited")},
               count(*), coalesce(sum(ran), 0), coalesce(sum(waited), 0), NULL
        FROM ended GROUP BY 1, 2, 3, 4, 5, 6
        UNION ALL
        SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, id FROM looked WHERE finished_at IS NULL
        """,
        params,
    )
    groups = [
        (database.moment(at), Group(type_name or UNKNOWN_TYPE, outcome, bool(exhausted), *rest))
        for at, type_name, outcome, exhausted, *rest, open_id in rows
        if open_id is None
    ]
    return groups, [row[-1] for row in rows if row[-1] is not None]


_COLUMNS = "id, job_id, token, number, outcome, started_at, finished_at"
UNKNOWN_TYPE = ""
"""Of an attempt whose job was deleted by hand."""


def _with_jobs() -> str:
    """What was looked at, each with its job, found by its key."""
    columns = (
        "looked.*, job.type, job.max_attempts, job.run_at AS claimable_at,"
        " job.status = 'completed' AND job.lease_token = looked.token AS is_last"
    )
    job = (
        "LEFT JOIN LATERAL (SELECT * FROM jobs_job WHERE id = looked.job_id LIMIT 1) AS job ON true"
        if database.is_postgres()
        else "LEFT JOIN jobs_job AS job ON job.id = looked.job_id"
    )
    return f"SELECT {columns} FROM looked {job}"


def _between(start: str, end: str) -> str:
    """Seconds, never below zero."""
    if database.is_postgres():
        return f"greatest(0, EXTRACT(EPOCH FROM {end} - {start})::float8)"
    return f"max(0.0, (julianday({end}) - julianday({start})) * 86400.0)"


def _looked(
    above: int, upto: int, still_open: Collection[int], columns: str = "outcome, finished_at"
) -> tuple[str, list[Any]]:
    columns = f"SELECT {columns} FROM jobs_attempt WHERE"
    listed = f" UNION ALL {columns} id IN ({', '.join(['%s'] * len(still_open))})" if still_open else ""
    return f"{columns} id > %s AND id <= %s{listed}", [above, upto, *still_open]


_COUNTS = "count(CASE WHEN outcome = 'completed' THEN 1 END), count(CASE WHEN outcome IN ('failed', 'lost') THEN 1 END)"


def _minute_sql() -> str:
    if database.is_postgres():
        return "date_trunc('minute', finished_at)"
    return "strftime('%%Y-%%m-%%d %%H:%%M:00', finished_at)"


@dataclass(frozen=True)
class History:
    now: datetime
    minutes: dict[datetime, Ended]
    is_behind: bool
    """So much happens that the newest minute or two are still to be counted."""

    def buckets(self, count: int, size: timedelta) -> list[tuple[datetime, Ended]]:
        """The last so many spans of this size; the last one has not ended yet."""
        last = _floor(self.now, size)
        spans = {last - size * back: Ended() for back in reversed(range(count))}
        for at, ended in self.minutes.items():
            if (span := spans.get(_floor(at, size))) is not None:
                span.add(ended.completed, ended.failed)
        return list(spans.items())


def _floor(at: datetime, size: timedelta) -> datetime:
    return at - timedelta(seconds=at.timestamp() % size.total_seconds())


def read_history(span: timedelta) -> History:
    """What ended within this span: counted minutes, and what has ended since."""
    # Rows are counted, not numbers: those have gaps.
    above_mark = "id > coalesce((SELECT attempt FROM jobs_countingmark), 0)"
    (now, attempt, still_open, newest, fresh), *_ = database.fetch(
        f"""
        SELECT {database.now_sql()}, (SELECT attempt FROM jobs_countingmark),
               (SELECT still_open FROM jobs_countingmark), (SELECT max(id) FROM jobs_attempt),
               (SELECT count(*) FROM (SELECT id FROM jobs_attempt WHERE {above_mark} ORDER BY id
                                      LIMIT {FRESH + 1}) AS fresh)
        """
    )
    now = database.moment(now)
    above, newest = attempt or 0, newest or 0
    is_behind = fresh > FRESH
    looked, params = _looked(above, above if is_behind else newest, _numbers(still_open))
    since = Minute._meta.get_field("at").get_db_prep_value(now - span, database.connection())
    rows = database.fetch(
        f"""
        WITH looked AS ({looked})
        SELECT {_minute_sql()}, {_COUNTS} FROM looked WHERE finished_at IS NOT NULL GROUP BY 1
        UNION ALL SELECT at, completed, failed FROM jobs_minute WHERE at > %s
        """,
        [*params, since],
    )
    minutes: defaultdict[datetime, Ended] = defaultdict(Ended)
    for at, completed, failed in rows:
        minutes[database.moment(at)].add(completed, failed)
    return History(now, dict(minutes), is_behind)


def _numbers(stored: Any) -> list[int]:
    return list(json.loads(stored)) if isinstance(stored, str) else list(stored or [])
