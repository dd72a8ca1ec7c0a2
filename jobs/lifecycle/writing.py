"""New rows: how jobs get into the table, one or thousands in a statement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs import database, wakeup

_LARGEST = 16 * 1024 * 1024
"""Characters of payload in one statement."""


@dataclass(frozen=True)
class Terms:
    """What jobs of one submission have in common."""

    type: str
    priority: int
    max_attempts: int
    delay: float = 0.0
    run_at: datetime | None = None
    submitter: str = ""
    correlation_id: str | None = None
    workflow_id: str | None = None
    parent_id: str | None = None
    blocked: bool = False


@dataclass(frozen=True)
class Draft:
    """One row to be written."""

    id: str
    payload: str
    unique_key: str | None = None


def write(terms: Terms, drafts: Sequence[Draft]) -> int:
    """In the caller's transaction; returns how many rows were written. Wake-ups go out when it commits."""
    write_rows = _write_postgres if database.is_postgres() else _write_sqlite
    written = write_rows(terms, drafts)
    if written and not terms.blocked:
        wakeup.on_commit()
    return written


_INSERT = """
INSERT INTO jobs_job (id, type, payload, priority, max_attempts, submitter, correlation_id,
                      unique_key, workflow_id, parent_id, blocked, run_at, status)
"""


def _write_postgres(terms: Terms, drafts: Sequence[Draft]) -> int:
    if len(drafts) == 1:
        draft = drafts[0]
        one = "(VALUES (%s::text, %s::jsonb, %s::text)) AS draft(id, payload, unique_key)"
        return _insert_postgres(terms, one, [draft.id, draft.payload, draft.unique_key])
    many = (
        "jsonb_array_elements(%s::jsonb) AS item,"
        " LATERAL (SELECT item ->> 0 AS id, item -> 1 AS payload, item ->> 2 AS unique_key) AS draft"
    )
    with database.atomic():
        return sum(_insert_postgres(terms, many, [text]) for text in _as_json(drafts))


def _insert_postgres(terms: Terms, source: str, params: list[Any]) -> int:
    # A moment that has passed means now: it is no way past those that came earlier.
    given = "greatest(%s::timestamptz, statement_timestamp())"
    moment = given if terms.run_at else "statement_timestamp() + %s * interval '1 second'"
    with database.connection().cursor() as cursor:
        cursor.execute(
            f"""{_INSERT}
            SELECT draft.id, %s, draft.payload, %s, %s, %s, coalesce(%s, draft.id),
                   draft.unique_key, %s, %s, %s, moment,
                   CASE WHEN %s OR moment > statement_timestamp() THEN 'waiting' ELSE 'pending' END
            FROM (SELECT {moment} AS moment) AS clock, {source}
            ON CONFLICT DO NOTHING""",
            [*_constants(terms), terms.blocked, terms.run_at or terms.delay, *params],
        )
        return int(cursor.rowcount)


def _as_json(drafts: Sequence[Draft]) -> Iterator[str]:
    """The rows as JSON arrays, none of them larger than a statement should be. The payloads are JSON already."""
    rows: list[str] = []
    size = 0
    for draft in drafts:
        row = f'["{draft.id}",{draft.payload},{json.dumps(draft.unique_key)}]'
        if rows and size + len(row) > _LARGEST:
            yield f"[{','.join(rows)}]"
            rows, size = [], 0
        rows.append(row)
        size += len(row)
    yield f"[{','.join(rows)}]"


def _write_sqlite(terms: Terms, drafts: Sequence[Draft]) -> int:
    now = database.now_sql()
    moment = (
        f"max(%s, {now})"
        if terms.run_at
        else f"CASE %s WHEN 0 THEN {now} ELSE strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %s) END"
    )
    sql = f"""{_INSERT}
        SELECT id, type, payload, priority, attempts, submitter, coalesce(correlation, id),
               unique_key, workflow, parent, blocked, moment,
               CASE WHEN blocked OR moment > {now} THEN 'waiting' ELSE 'pending' END
        FROM (SELECT %s AS id, %s AS payload, %s AS unique_key, %s AS type, %s AS priority, %s AS attempts,
                     %s AS submitter, %s AS correlation, %s AS workflow, %s AS parent, %s AS blocked,
                     {moment} AS moment)
        WHERE true ON CONFLICT DO NOTHING"""
    if terms.run_at:
        when: list[Any] = [database.connection().ops.adapt_datetimefield_value(terms.run_at)]
    else:
        when = [terms.delay, f"+{terms.delay:.3f} seconds"]
    tail = [*_constants(terms), *when]
    with database.connection().cursor() as cursor, database.atomic():
        if len(drafts) == 1:
            draft = drafts[0]
            cursor.execute(sql, [draft.id, draft.payload, draft.unique_key, *tail])
        else:
            cursor.executemany(sql, [[draft.id, draft.payload, draft.unique_key, *tail] for draft in drafts])
        return int(cursor.rowcount)


def _constants(terms: Terms) -> list[Any]:
    return [
        terms.type,
        terms.priority,
        terms.max_attempts,
        terms.submitter,
        terms.correlation_id,
        terms.workflow_id,
        terms.parent_id,
        terms.blocked,
    ]
