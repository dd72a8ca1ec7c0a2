"""LISTEN/NOTIFY, and on the same connection the session lock that proves the worker alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from django.db import connections

from jobs import database

log = logging.getLogger("jobs.wakeup")

CHANNEL = "jobs_wakeup"
HINT_SQL = f"pg_notify('{CHANNEL}', '')"
_RECONNECT_FIRST, _RECONNECT_CAP = 0.1, 2.0

# The server must notice within seconds that a machine has vanished, so that the session, and with it the lock, ends.
_KEEPALIVE = "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3"


def notify() -> None:
    """In a statement of its own after the commit: NOTIFY takes a global lock, which must never wait for a disk."""
    with database.connection().cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")


class PostgresEar:
    def __init__(
        self, on_hint: Callable[[], None], *, lock_key: int | None, on_lock: Callable[[], None]
    ) -> None:
        self._on_hint = on_hint
        self._lock_key = lock_key
        self._on_lock = on_lock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ear", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():  # without SESSION_FEATURES it was never started
            self._thread.join(timeout=5)

    def _run(self) -> None:
        wait = _RECONNECT_FIRST
        while not self._stopping.is_set():
            try:
                raw = self._connect()
                wait = _RECONNECT_FIRST
                while not self._stopping.is_set():
                    for _ in raw.notifies(timeout=1.0, stop_after=1):
                        self._on_hint()
            except Exception as error:
                if not self._stopping.is_set():
                    log.warning("lost the wake-up connection (%s); trying again in %.1f s", error, wait)
            self._close()
            self._stopping.wait(wait)
            wait = min(_RECONNECT_CAP, wait * 2)

    def _connect(self) -> Any:
        wrapper = database.connection()
        wrapper.ensure_connection()
        with wrapper.cursor() as cursor:
            cursor.execute(_KEEPALIVE)
            if self._lock_key is not None:
                cursor.execute(
                    "SELECT pg_try_advisory_lock(%s, %s)", [database.SESSION_LOCK_CLASS, self._lock_key]
                )
                if not cursor.fetchone()[0]:
                    raise RuntimeError("the session lock is still held by a previous connection")
                self._on_lock()
            cursor.execute(f"LISTEN {CHANNEL}")
        self._on_hint()  # whatever was announced while nobody listened
        return wrapper.connection

    def _close(self) -> None:
        try:
            connections[database.alias()].close()
        except Exception:
            log.debug("closing the wake-up connection failed", exc_info=True)
