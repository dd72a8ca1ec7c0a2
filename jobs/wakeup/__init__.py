"""Telling idle workers that there is something to claim. A hint, never the truth: the database decides.

PostgreSQL: NOTIFY. SQLite: a datagram to every worker of this database on this host. Underneath, workers poll.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from jobs import database

log = logging.getLogger("jobs.wakeup")

COALESCE_SECONDS = 0.01
"""A process sends at most one hint in this time. A worker that was woken keeps looking for longer than that."""


QUIET_SECONDS = 0.03
"""NOTIFY holds a global lock until its transaction has reached the disk. After such a pause it may: the rate is low."""


class Ear(Protocol):
    """Hears hints in a thread of its own and calls back."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


_lock = threading.Lock()
_last_sent: dict[str, float] = {}


def on_commit() -> None:
    """Wake workers when the current transaction commits; never when it rolls back."""
    database.on_commit(send)


def within_statement() -> bool:
    """Whether the statement that is about to write a job should send the hint itself (postgres.HINT_SQL): it saves the
    first job after a pause a round trip. Only if the statement is a transaction of its own: this counts as sent."""
    return not database.connection().in_atomic_block and _may_send(QUIET_SECONDS)


def _may_send(pause: float) -> bool:
    """Whether the last hint was sent so long ago. If so, another one counts as sent."""
    alias = database.alias()
    with _lock:
        now = time.monotonic()
        if now - _last_sent.get(alias, float("-inf")) < pause:
            return False
        _last_sent[alias] = now
        return True


def send() -> None:
    if not _may_send(COALESCE_SECONDS):
        return
    try:
        if database.is_postgres():
            from jobs.wakeup import postgres

            postgres.notify()
        else:
            from jobs.wakeup import local

            local.notify()
    except Exception:
        log.warning("could not send a wake-up; workers find the job by polling", exc_info=True)


def make_ear(on_hint: Callable[[], None], *, lock_key: int | None, on_lock: Callable[[], None]) -> Ear:
    """What hears for a worker on this database."""
    if database.is_postgres():
        from jobs.wakeup.postgres import PostgresEar

        return PostgresEar(on_hint, lock_key=lock_key, on_lock=on_lock)
    from jobs.wakeup.local import LocalEar

    return LocalEar(on_hint)
