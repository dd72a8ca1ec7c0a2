"""A connection of the suite's own. Tests may break, close or change theirs; this one stays open, and with it the plans
that PostgreSQL has made for the functions that run around every test."""

from __future__ import annotations

from typing import Any

from django.db import Error, connection
from django.db.backends.base.base import BaseDatabaseWrapper

_session: BaseDatabaseWrapper | None = None


def execute(sql: str) -> list[tuple[Any, ...]]:
    """Returns the rows. A test may have stopped the server since the last time: then in a new session."""
    try:
        return _execute(sql)
    except Error:
        close()
        return _execute(sql)


def close() -> None:
    global _session
    if _session is not None:
        _session.close()
        _session = None


def _execute(sql: str) -> list[tuple[Any, ...]]:
    global _session
    if _session is None:
        _session = connection.copy("beside")
    with _session.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []
