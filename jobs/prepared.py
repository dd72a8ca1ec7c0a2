"""The statements of the hot paths, parsed (and, where that is safe, planned) once per PostgreSQL connection.

Django sends every statement as text, so that the server reads and plans it anew. For an enqueue or a claim that takes
longer than doing it. psycopg keeps a prepared statement with its connection, by its text and the types of its values.

After five runs the server may settle on a plan that ignores the values, and on one that reads a whole table when the
table happened to be small at that moment. So reads are prepared only on connections that were told to use indexes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakSet

from django.db.backends.base.base import BaseDatabaseWrapper

from jobs import conf, database

_ONLY_WHEN_TOLD = 2**31
"""psycopg prepares by itself after so many executions of a statement, and Django says None: not even when told."""

_reads_by_index: WeakSet[Any] = WeakSet()


def read_by_index(connection: BaseDatabaseWrapper) -> None:
    """Reads of this connection are those of claims, and may be prepared from now on."""
    if _may_prepare(connection):
        with connection.cursor() as cursor:
            cursor.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        _reads_by_index.add(connection.connection)


def write(sql: str, params: list[Any]) -> int:
    """An INSERT of given values. Returns how many rows were written."""
    with _cursor(prepare=True) as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def fetch(sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    """The answer of a statement that looks rows up."""
    with _cursor(prepare=database.connection().connection in _reads_by_index) as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


@contextmanager
def _cursor(*, prepare: bool) -> Iterator[Any]:
    connection = database.connection()
    with connection.cursor() as cursor:
        if prepare and _may_prepare(connection) and not connection.queries_logged:
            raw = connection.connection
            if raw.prepare_threshold is None:
                raw.prepare_threshold = _ONLY_WHEN_TOLD
            cursor.cursor = _preparing_cursor_class()(raw)  # within Django's wrapper, which translates errors
        yield cursor


@cache
def _preparing_cursor_class() -> Any:
    import psycopg

    class PreparingCursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> PreparingCursor:
            return super().execute(query, params, **{**options, "prepare": True})

    return PreparingCursor


def _may_prepare(connection: BaseDatabaseWrapper) -> bool:
    """Not behind a pooler that gives each transaction another server connection."""
    return (
        connection.vendor == "postgresql"
        and conf.current().session_features
        and not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    )
