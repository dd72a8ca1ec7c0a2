"""Telling idle workers that there is something to claim. A hint, never the truth: the database decides.

QUEUE_MODE `database`: NOTIFY on PostgreSQL; on SQLite a datagram to every worker of this database on this host.
`redis`: Redis Streams (streams.py). `hybrid`: Redis, and while it is away what `database` does.
Underneath, workers poll.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Protocol

from django.db import Error as DatabaseError

from jobs import conf, database

if TYPE_CHECKING:
    from jobs.wakeup.streams import StreamEar

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


def demand() -> None:
    """Before a worker starts: raises RedisMissing if the mode promises Redis and there is none."""
    if conf.current().queue_mode == "redis":
        from jobs.wakeup import redis_link

        redis_link.demand()


def on_commit(priority: int | None = None) -> None:
    """Wake workers when the current transaction commits; never when it rolls back. The priority is the most urgent
    one of what can be claimed then, if the caller knows it."""
    database.on_commit(partial(send, priority))


def within_statement() -> bool:
    """Whether the statement that is about to write a job should send the hint itself (postgres.HINT_SQL): it saves the
    first job after a pause a round trip. Only if the statement is a transaction of its own: this counts as sent."""
    return (
        conf.current().queue_mode == "database"
        and not database.connection().in_atomic_block
        and _may_send(QUIET_SECONDS)
    )


def _may_send(pause: float, lane: str = "") -> bool:
    """Whether the last hint was sent so long ago. If so, another one counts as sent."""
    place = database.alias() + lane
    with _lock:
        now = time.monotonic()
        if now - _last_sent.get(place, float("-inf")) < pause:
            return False
        _last_sent[place] = now
        return True


def send(priority: int | None = None) -> None:
    try:
        mode = conf.current().queue_mode
        if mode == "database":
            if _may_send(COALESCE_SECONDS):
                _notify()
            return
        from jobs.wakeup import streams

        lane = streams.lane_of(priority)
        if _may_send(COALESCE_SECONDS, lane) and not streams.publish(lane) and mode == "hybrid":
            _notify()
    except DatabaseError as error:
        log.warning("could not send a wake-up (%s); workers find the job by polling", error)
    except Exception:
        log.warning("could not send a wake-up; workers find the job by polling", exc_info=True)


def _notify() -> None:
    """By the database's own means."""
    if database.is_postgres():
        from jobs.wakeup import postgres

        postgres.notify()
    else:
        from jobs.wakeup import local

        local.notify()


class Ears:
    """What a worker hears with: the ear of its database, and of Redis."""

    def __init__(self, own: Ear | None, streams: StreamEar | None) -> None:
        self._own = own
        self._streams = streams

    def start(self) -> None:
        for ear in (self._own, self._streams):
            if ear:
                ear.start()

    def looked(self, *, asked: int, got: int, at: float) -> None:
        """Called after each claim: whether the worker has room for more."""
        if self._streams:
            self._streams.looked(asked=asked, got=got, at=at)

    def stop(self) -> None:
        if self._streams:
            self._streams.ask_to_stop()
        for ear in (self._own, self._streams):
            if ear:
                ear.stop()


def make_ear(
    on_hint: Callable[[], None],
    *,
    lock_key: int | None,
    on_lock: Callable[[], None],
    crew: Collection[str] = (),
) -> Ears:
    """What hears for a worker on this database. Workers of the same crew (job types, capabilities) can run the same."""
    streams: StreamEar | None = None
    if conf.current().queue_mode != "database":
        from jobs.wakeup.streams import StreamEar

        streams = StreamEar(on_hint, crew)
    return Ears(_own_ear(on_hint, lock_key=lock_key, on_lock=on_lock), streams)


def _own_ear(on_hint: Callable[[], None], *, lock_key: int | None, on_lock: Callable[[], None]) -> Ear | None:
    settings = conf.current()
    if not settings.session_features:
        return None
    if database.is_postgres():
        from jobs.wakeup.postgres import PostgresEar

        return PostgresEar(on_hint, lock_key=lock_key, on_lock=on_lock)  # its lock proves the worker alive
    from jobs.wakeup.local import LocalEar

    return None if settings.queue_mode == "redis" else LocalEar(on_hint)
