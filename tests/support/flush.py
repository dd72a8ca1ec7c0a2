"""Empties the database after a test with transactions.

Django's `flush` takes forty milliseconds for sixty tables, most of them empty, and a thousand tests wait for it. This
one asks which tables have rows and empties those; what `migrate` wrote stays, since no test changes it.
"""

from __future__ import annotations

import pytest
from django.db import Error, connection, transaction
from django.test import TransactionTestCase

from tests.support import beside

AS_MIGRATED = {"django_content_type", "auth_permission", "django_migrations"}
GROWN = 1 << 18
"""Bytes of an empty table from which it is made anew: PostgreSQL reads its dead rows at every look."""

SESSION = """SELECT (SELECT array_agg(name ORDER BY name) FROM pg_settings WHERE source = 'session'),
    (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())"""
"""What a test can leave behind in a session."""

_tables: list[str] = []
_new_session: tuple[object, ...] | None = None


def learn() -> None:
    """Once, before any test has written a row."""
    global _tables, _new_session
    with connection.cursor() as cursor:
        found = connection.introspection.table_names(cursor)
        _tables = [connection.ops.quote_name(name) for name in found if name not in AS_MIGRATED]
        if connection.vendor == "postgresql":
            cursor.execute(SESSION)
            _new_session = cursor.fetchone()
            deletes = [
                f"IF EXISTS(SELECT FROM {table}) THEN DELETE FROM {table}; END IF;" for table in _tables
            ]
            sizes = [
                f"IF pg_relation_size('{table}') > {GROWN} THEN grown := grown || '{table}'::text; END IF;"
                for table in _tables
            ]
            # PostgreSQL keeps the plans of a function.
            cursor.execute(
                f"CREATE OR REPLACE FUNCTION quick_flush() RETURNS void LANGUAGE plpgsql"
                f" AS $$ BEGIN {' '.join(deletes)} END $$"
            )
            cursor.execute(
                f"CREATE OR REPLACE FUNCTION grown_tables() RETURNS text[] LANGUAGE plpgsql"
                f" AS $$ DECLARE grown text[] := '{{}}'; BEGIN {' '.join(sizes)} RETURN grown; END $$"
            )


def install(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: flush())
    patch.setattr(TransactionTestCase, "_should_reload_connections", lambda case: not _is_sound())


def flush() -> None:
    if connection.vendor == "postgresql":
        beside.execute("SELECT quick_flush()")
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"EXISTS(SELECT 1 FROM {table})" for table in _tables))
        (has_rows,) = cursor.fetchall()
        with transaction.atomic(), connection.constraint_checks_disabled():
            for table in (table for table, found in zip(_tables, has_rows, strict=True) if found):
                cursor.execute(f"DELETE FROM {table}")


def shrink() -> None:
    """Before a test, when all tables are empty: make those small again that were full."""
    if connection.vendor == "postgresql":
        ((grown,),) = beside.execute("SELECT grown_tables()")
        if grown:
            beside.execute(f"TRUNCATE {', '.join(grown)} CASCADE")


def _is_sound() -> bool:
    """Whether the next test may go on with this connection: a new one would have to read the catalogue anew."""
    if connection.vendor != "postgresql" or connection.connection is None or connection.in_atomic_block:
        return False
    try:
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
            return connection.get_autocommit() and cursor.fetchone() == _new_session
    except Error:
        return False
