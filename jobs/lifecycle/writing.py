"""New rows: how jobs get into the table, one or thousands in a statement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from jobs import database, prepared, tracing, wakeup
from jobs.wakeup.postgres import HINT_SQL

_COPIED_AT_ONCE = 500
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

    @property
    def at_once(self) -> bool:
        """Claimable as soon as it is written."""
        return not self.blocked and self.run_at is None and self.delay == 0


class Draft(NamedTuple):
    """One row to be written."""

    id: str
    payload: str
    unique_key: str | None = None


def write(terms: Terms, drafts: Sequence[Draft]) -> int:
    """In the caller's transaction; returns how many rows were written. Wake-ups go out when it commits."""
    with tracing.enqueueing(terms.type, terms.correlation_id or drafts[0].id, len(drafts)):
        return _write(terms, drafts)


def _write(terms: Terms, drafts: Sequence[Draft]) -> int:
    if not database.is_postgres():
        written = _write_sqlite(terms, drafts)
    elif len(drafts) == 1:
        return _write_one_postgres(terms, drafts[0])
    else:
        written = _write_many_postgres(terms, drafts)
    if written and not terms.blocked:
        wakeup.on_commit(terms.priority)
    return written


_INSERT = """
INSERT INTO jobs_job (id, type, payload, priority, max_attempts, submitter, correlation_id,
                      unique_key, workflow_id, parent_id, blocked, run_at, status)
"""


def _write_one_postgres(terms: Terms, draft: Draft) -> int:
    one = "(VALUES (%s::text, %s::jsonb, %s::text)) AS draft(id, payload, unique_key)"
    hint = not terms.blocked and wakeup.within_statement()
    written = _insert_postgres(terms, one, [draft.id, draft.payload, draft.unique_key], hint=hint)
    if written and not terms.blocked and not hint:
        wakeup.on_commit(terms.priority)
    return written


def _write_many_postgres(terms: Terms, drafts: Sequence[Draft]) -> int:
    if terms.at_once and not any(draft.unique_key for draft in drafts):
        return _copy_postgres(terms, drafts)
    many = (
        "jsonb_array_elements(%s::jsonb) AS item,"
        " LATERAL (SELECT item ->> 0 AS id, item -> 1 AS payload, item ->> 2 AS unique_key) AS draft"
    )
    with database.atomic():
        return sum(_insert_postgres(terms, many, [text]) for text in _as_json(drafts))


def _insert_postgres(terms: Terms, source: str, params: list[Any], *, hint: bool = False) -> int:
    # A moment that has passed means now: it is no way past those that came earlier.
    given = "greatest(%s::timestamptz, statement_timestamp())"
    moment = given if terms.run_at else "statement_timestamp() + %s * interval '1 second'"
    insert = f"""{_INSERT}
        SELECT draft.id, %s, draft.payload, %s, %s, %s, coalesce(%s, draft.id),
               draft.unique_key, %s, %s, %s, moment,
               CASE WHEN %s OR moment > statement_timestamp() THEN 'waiting' ELSE 'pending' END
        FROM (SELECT {moment} AS moment) AS clock, {source}
        ON CONFLICT DO NOTHING"""
    return prepared.write(
        f"WITH written AS ({insert} RETURNING 1) SELECT {HINT_SQL} FROM written" if hint else insert,
        [*_constants(terms), terms.blocked, terms.run_at or terms.delay, *params],
    )


def _copy_postgres(terms: Terms, drafts: Sequence[Draft]) -> int:
    """COPY: rows without conditions, read by the server while the next ones are being sent."""
    known = (
        terms.type,
        terms.priority,
        terms.max_attempts,
        terms.submitter,
        terms.workflow_id,
        terms.parent_id,
    )
    columns = "\t".join("\\N" if value is None else _copy_text(str(value)) for value in known)
    shared = f"\tpending\t{columns}\t"
    correlation = _copy_text(terms.correlation_id or "")
    connection = database.connection()
    with database.atomic(), connection.cursor() as cursor, connection.wrap_database_errors:
        with cursor.copy(
            "COPY jobs_job (id, status, type, priority, max_attempts, submitter, workflow_id, parent_id,"
            " correlation_id, payload) FROM STDIN"
        ) as copy:
            for start in range(0, len(drafts), _COPIED_AT_ONCE):
                rows = [
                    f"{draft.id}{shared}{correlation or draft.id}\t{_copy_text(draft.payload)}\n"
                    for draft in drafts[start : start + _COPIED_AT_ONCE]
                ]
                copy.write("".join(rows))
        return int(cursor.rowcount)


def _copy_text(text: str) -> str:
    """As COPY's text format wants it."""
    if "\\" in text or not text.isprintable():
        text = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return text


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
