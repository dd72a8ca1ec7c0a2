"""The one place that knows which database holds the jobs, and how PostgreSQL and SQLite differ."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal, TypeVar

from django.db import OperationalError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Func, Model, Q
from django.db.models.functions import Now
from django.db.models.lookups import GreaterThan

T = TypeVar("T")

SWEEP_LOCK = 0x53505257  # one sweep at a time across the fleet
SESSION_LOCK_CLASS = 0x5350524B  # one lock per living worker


def alias() -> str:
    return router.db_for_write(_job_model())


@cache
def _job_model() -> type[Model]:
    from jobs.models import Job

    return Job


def connection() -> BaseDatabaseWrapper:
    return connections[alias()]


def is_postgres() -> bool:
    return connection().vendor == "postgresql"


def leave_pool() -> None:
    """From now on the connection of this thread is no pool's (Django's OPTIONS["pool"]): what it does belongs to its
    session, LISTEN or a lock, and must end with it."""
    conn = connection()
    if _is_pooled(conn):
        conn.close()
        options = {name: value for name, value in conn.settings_dict["OPTIONS"].items() if name != "pool"}
        conn.settings_dict = {**conn.settings_dict, "OPTIONS": options}


def never_pool() -> None:
    """In this process. A worker promises each job a connection that nobody has used, and a command needs only one."""
    for name, told in connections.settings.items():
        if told.get("OPTIONS", {}).get("pool"):
            conn = connections[name]
            conn.close()
            conn.close_pool()  # type: ignore[attr-defined]
            del told["OPTIONS"]["pool"]


def give_back() -> None:
    """To the pool, if there is one, before an answer that takes long and asks nothing more."""
    for conn in connections.all(initialized_only=True):
        if _is_pooled(conn) and not conn.in_atomic_block:
            conn.close()


def _is_pooled(conn: BaseDatabaseWrapper) -> bool:
    return bool(conn.settings_dict.get("OPTIONS", {}).get("pool"))


@contextmanager
def atomic(*, savepoint: bool = True) -> Iterator[None]:
    """A short transaction on the jobs' database; on SQLite it takes the write lock at once (BEGIN IMMEDIATE).

    Within another one it is a savepoint, or simply a part of it.
    """
    conn = connection()
    if conn.vendor == "sqlite" and not conn.in_atomic_block:
        conn.ensure_connection()
        before = conn.transaction_mode  # type: ignore[attr-defined]
        conn.transaction_mode = "IMMEDIATE"  # type: ignore[attr-defined]
        try:
            with transaction.atomic(using=conn.alias):
                yield
        finally:
            conn.transaction_mode = before  # type: ignore[attr-defined]
    else:
        with transaction.atomic(using=conn.alias, savepoint=savepoint):
            yield


def on_commit(action: Callable[[], Any]) -> None:
    transaction.on_commit(action, using=alias())


def when_unlocked(action: Callable[[], T], *, attempts: int = 8) -> T:
    """Run a whole transaction again when SQLite's lock, or a deadlock, refused it.

    SQLite's own busy handler is not fair, so the pauses are random and grow.
    """
    for attempt in range(attempts):
        try:
            return action()
        except OperationalError as error:
            refused = "locked" in str(error) or "deadlock" in str(error)
            if not refused or connection().in_atomic_block or attempt == attempts - 1:
                raise
            time.sleep(random.uniform(0.005, 0.02) * 2**attempt)
    raise AssertionError("unreachable")


class _Moment(Now):
    """So long after now. SQLite compares moments as text, so it is written exactly as Now() writes it."""

    def __init__(self, delta: timedelta) -> None:
        super().__init__()
        self._delta = delta

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, tuple[Any, ...]]:
        return "(STATEMENT_TIMESTAMP() + %s)", (self._delta,)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, tuple[Any, ...]]:
        modifier = f"{self._delta.total_seconds():+.3f} seconds"
        return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %s)", (modifier,)


def now_plus(delta: timedelta) -> Now:
    """A moment by the database's clock, the only clock that counts."""
    return _Moment(delta)


def now_minus(delta: timedelta) -> Now:
    return _Moment(-delta)


def now_sql() -> str:
    """The same clock for statements written by hand, as Django's Now() writes it."""
    return "statement_timestamp()" if is_postgres() else "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')"


def later_sql(sign: Literal["+", "-"] = "+") -> str:
    """So many seconds from now (or before) by that clock; they are a parameter."""
    if is_postgres():
        return f"statement_timestamp() {sign} %s * interval '1 second'"
    return f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '{sign}' || %s || ' seconds')"


def earlier_sql() -> str:
    return later_sql("-")


def read_clock() -> datetime:
    """What the database's clock says."""
    if is_postgres():
        now: datetime = fetch("SELECT statement_timestamp()")[0][0]
        return now
    text = fetch("SELECT strftime('%%Y-%%m-%%d %%H:%%M:%%f+00:00', 'now')")[0][0]
    return datetime.fromisoformat(text)


class _ServerStart(Func):
    function = "pg_postmaster_start_time"
    output_field = DateTimeField()


def started_within(period: timedelta) -> Q:
    """A condition: the database server has been started within this period. A SQLite file has no server."""
    if not is_postgres():
        return Q(pk__in=[])
    return Q(GreaterThan(_ServerStart(), now_minus(period)))


def fetch(sql: str, params: list[Any] | tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    with connection().cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


_present: set[tuple[str, str]] = set()


def has_table(model: type[Model]) -> bool:
    """False while code that is newer than the database's schema waits for `migrate`."""
    key = (alias(), model._meta.db_table)
    if key not in _present:
        if key[1] not in connection().introspection.table_names():
            return False
        _present.add(key)
    return True


@dataclass(frozen=True, slots=True)
class Subselect:
    """A query that gives ids."""

    sql: str
    params: list[Any]


def among(column: str, ids: Iterable[str] | Subselect, *, vendor: str) -> tuple[str, list[Any]]:
    """A condition with one short parameter for the whole list: the statement's text does not grow with it."""
    if isinstance(ids, Subselect):
        # On PostgreSQL as an array: computed once, before the rows are looked up by it.
        chosen = f"= ANY(ARRAY({ids.sql}))" if vendor == "postgresql" else f"IN ({ids.sql})"
        return f"{column} {chosen}", ids.params
    if vendor == "postgresql":
        # psycopg spends longer on writing an array than PostgreSQL on splitting a text. Ids contain no comma.
        return f"{column} = ANY(string_to_array(%s, ','))", [",".join(ids)]
    return f"{column} IN (SELECT value FROM json_each(%s))", [json.dumps(list(ids))]


@contextmanager
def joins_in_one_pass() -> Iterator[None]:
    """For queries over whole tables. PostgreSQL repeats a scan for every row of a table that it takes for empty, as its
    statistics do of one that has just grown; without nested loops it reads each table once."""
    if not is_postgres():
        yield
        return
    with atomic():
        (before,) = fetch("SHOW enable_nestloop")[0]
        fetch("SELECT set_config('enable_nestloop', 'off', true)")
        yield
        fetch(
            "SELECT set_config('enable_nestloop', %s, true)", [before]
        )  # the transaction may be the caller's


def try_sweep_lock() -> bool:
    """Inside a transaction: True for one sweeper at a time. On SQLite the transaction itself is that lock."""
    if not is_postgres():
        return True
    return bool(fetch("SELECT pg_try_advisory_xact_lock(%s)", [SWEEP_LOCK])[0][0])


def moment(value: Any) -> datetime:
    """A moment as a statement written by hand returns it: SQLite gives text, or for a column a naive datetime."""
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
