"""How a web process learns that something may have changed. Hints, never the truth: topics are read from the database.

PostgreSQL: NOTIFY, and a look at the running jobs for their progress. SQLite: the number that SQLite itself counts
up with every commit. Behind a pooler that knows no LISTEN: the clock. Redis (broadcast.py) goes beside them.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from typing import Any, Protocol

from jobs import conf, database
from jobs.live.hints import CHANNEL

POLL = 0.25
"""Seconds between two looks at the database for what nobody announces."""


class Alarm:
    """Wakes the hub's thread out of any wait: a pipe, so that a database connection can be waited for beside it."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # full: it is ringing already; closed: nobody waits
            os.write(self._writer, b"!")

    def wait(self, seconds: float, *others: int) -> bool:
        """Until it rings, another file has something to read, or the time is over. True: it was another file."""
        poll = select.poll()  # select() knows no file beyond the 1,024th, and each open page is one
        for file in (self._reader, *others):
            poll.register(file, select.POLLIN)
        readable = {file for file, _ in poll.poll(math.ceil(seconds * 1000))}
        if self._reader in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._reader, 4096)
        return any(other in readable for other in others)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class Source(Protocol):
    def open(self) -> None: ...

    def wait(self, seconds: float, alarm: Alarm) -> bool:
        """Wait at most so long. True: something may have changed."""

    def close(self) -> None:
        """The alarm is not rung any more."""


def make_source() -> Source:
    mode = conf.current().queue_mode
    if mode == "database":
        return _of_database()
    from jobs.live.broadcast import Broadcast

    if mode == "redis" and database.is_postgres():
        return Broadcast(RunningJobs(), without=Clock())  # nobody sends NOTIFY
    source = _of_database()
    return Broadcast(RunningJobs() if isinstance(source, Clock) else source, without=source)


def _of_database() -> Source:
    if not database.is_postgres():
        return CommitCounter()
    return Notifications() if conf.current().session_features else Clock()


class _Source:
    def open(self) -> None:
        pass

    def close(self) -> None:
        pass


class RunningJobs(_Source):
    """Progress is announced by nobody."""

    def __init__(self) -> None:
        self._heard = False
        self._looked_at = float("-inf")
        self._running: Any = None

    def wait(self, seconds: float, alarm: Alarm) -> bool:
        until_look = self._looked_at + POLL - time.monotonic()
        arrived = alarm.wait(max(0.0, min(seconds, until_look)), *self._files())
        if arrived or self._looked_at + POLL <= time.monotonic():
            self._look()
        heard, self._heard = self._heard, False
        return heard

    def _files(self) -> list[int]:
        """What else there is to wait for."""
        return []

    def _look(self) -> None:
        """The query also takes in what the server has sent."""
        self._looked_at = time.monotonic()
        running = database.fetch(
            "SELECT count(*), max(last_checkpoint), sum(lease_token) FROM jobs_job WHERE status = 'processing'"
        )
        self._heard |= running != self._running
        self._running = running


class Notifications(RunningJobs):
    """LISTEN on the hub's own connection. A notification that arrives during a query is heard as well."""

    def open(self) -> None:
        from jobs.wakeup.postgres import CHANNEL as NEW_JOBS

        wrapper = database.connection()
        wrapper.ensure_connection()
        wrapper.connection.add_notify_handler(self._hear)
        with wrapper.cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}; LISTEN {NEW_JOBS}")

    def _hear(self, notification: Any) -> None:
        self._heard = True

    def _files(self) -> list[int]:
        return [database.connection().connection.fileno()]


class CommitCounter(_Source):
    """SQLite tells a connection whether others have committed since it last asked, without reading a table."""

    INTERVAL = 0.2

    def __init__(self) -> None:
        self._version: Any = None

    def open(self) -> None:
        self._version = self._ask()

    def wait(self, seconds: float, alarm: Alarm) -> bool:
        alarm.wait(min(seconds, self.INTERVAL))
        before, self._version = self._version, self._ask()
        return bool(self._version != before)

    def _ask(self) -> Any:
        return database.fetch("PRAGMA data_version")


class Clock(_Source):
    def wait(self, seconds: float, alarm: Alarm) -> bool:
        alarm.wait(POLL)
        return True
