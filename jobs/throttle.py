"""Counts tries in the database, which all web processes share."""

from __future__ import annotations

from django.conf import settings

from jobs import database
from jobs.exceptions import TooManyTries
from jobs.models import RateWindow
from jobs.rate_limits import Limit, client_of, retry_after, slot_of


def take(limit: Limit, address: str) -> None:
    """One try of the client at this address. Raises TooManyTries when it has none left; that costs one read."""
    take_as(limit, client_of(address))


def take_as(limit: Limit, client: str) -> None:
    """The same for somebody who is known by name."""
    slot = slot_of(client, limit.name, settings.SECRET_KEY)
    wait = _wait(limit, slot)
    if wait is None:
        used, age = database.when_unlocked(lambda: _count(limit, slot))
        wait = retry_after(limit, used - 1, age)  # racing requests may have passed the read together
    if wait is not None:
        raise TooManyTries(limit.name, wait)


def _wait(limit: Limit, slot: int) -> int | None:
    rows = database.fetch(
        f"SELECT count, {_age()} FROM {_TABLE} WHERE name = %s AND slot = %s", [limit.name, slot]
    )
    return retry_after(limit, *rows[0]) if rows else None


def _count(limit: Limit, slot: int) -> tuple[int, float]:
    """One more in the window of this slot, or the first in a new one."""
    now, age = database.now_sql(), _age(_TABLE)
    is_over = f"({age} >= %s OR {age} < -1)"  # a clock may be set back
    with database.atomic():
        (row,) = database.fetch(
            f"""
            INSERT INTO {_TABLE} (name, slot, started_at, count) VALUES (%s, %s, {now}, 1)
            ON CONFLICT (name, slot) DO UPDATE
            SET count = CASE WHEN {is_over} THEN 1 ELSE {_TABLE}.count + 1 END,
                started_at = CASE WHEN {is_over} THEN {now} ELSE {_TABLE}.started_at END
            RETURNING count, {_age()}
            """,
            [limit.name, slot, limit.period, limit.period],
        )
    return row[0], row[1]


_TABLE = RateWindow._meta.db_table


def _age(table: str = "") -> str:
    """Seconds since the window began."""
    column = f"{table}.started_at" if table else "started_at"
    if database.is_postgres():
        return f"EXTRACT(EPOCH FROM statement_timestamp() - {column})::float8"
    return f"((julianday('now') - julianday({column})) * 86400.0)"
