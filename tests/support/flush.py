"""Empties the database after a test with transactions.

Django's `flush` takes forty milliseconds for sixty tables, most of them empty, and a thousand tests wait for it. This
one asks which tables have rows and empties those; what `migrate` wrote stays, since no test changes it.
"""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase

from tests.support import beside

AS_MIGRATED = {"django_content_type", "auth_permission", "django_migrations"}
GROWN = 1 << 20
"""Bytes of a table from which every later look at it would take long: emptied rows are still read."""


def learn() -> None:
    """Once, before any test has written a row."""
    global _tables
    with connection.cursor() as cursor:
        found = connection.introspection.table_names(cursor)
        _tables = [connection.ops.quote_name(name) for name in found if name not in AS_MIGRATED]
        if connection.vendor == "postgresql":
            _write_function(_tables)


def install(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: flush())


def flush() -> None:
    if connection.vendor == "postgresql":
        ((grown,),) = beside.fetch("SELECT quick_flush()")
        if grown:
            connection.cursor().execute(f"TRUNCATE {', '.join(grown)} CASCADE")
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"EXISTS(SELECT 1 FROM {table})" for table in _tables))
        (has_rows,) = cursor.fetchall()
        with transaction.atomic(), connection.constraint_checks_disabled():
            for table in (table for table, found in zip(_tables, has_rows, strict=True) if found):
                cursor.execute(f"DELETE FROM {table}")


_tables: list[str] = []


def _write_function(tables: list[str]) -> None:
    """PostgreSQL keeps the plans of a function."""
    emptied = " ".join(
        f"IF EXISTS(SELECT FROM {table}) THEN DELETE FROM {table}; END IF; "
        f"IF pg_relation_size('{table}') > {GROWN} THEN grown := grown || '{table}'::text; END IF;"
        for table in tables
    )
    connection.cursor().execute(
        "CREATE OR REPLACE FUNCTION quick_flush() RETURNS text[] LANGUAGE plpgsql AS "
        f"$flush$ DECLARE grown text[] := '{{}}'; BEGIN {emptied} RETURN grown; END $flush$"
    )
