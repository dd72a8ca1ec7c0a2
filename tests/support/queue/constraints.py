"""Impossible rows, for the tests that show that somebody notices them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from jobs import database


@contextmanager
def undone() -> Iterator[None]:
    """What happens in this block is rolled back at its end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def without_constraints() -> Iterator[None]:
    """In this block, which is undone at its end, the tables of the queue accept anything."""
    with undone(), connection.cursor() as cursor:
        cursor.execute("DROP INDEX jobs_one_active_per_key")
        cursor.execute("DROP INDEX jobs_one_firing_per_tick")
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
            try:
                yield
            finally:
                cursor.execute("PRAGMA ignore_check_constraints = OFF")
            return
        cursor.execute(
            "SET CONSTRAINTS ALL IMMEDIATE"
        )  # so that no check is still due when the table is altered
        checks = database.fetch(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint"
            " WHERE contype = 'c' AND conrelid IN ('jobs_job'::regclass, 'jobs_attempt'::regclass,"
            " 'jobs_breaker'::regclass, 'jobs_schedule'::regclass)"
        )
        for table, name in checks:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        yield
