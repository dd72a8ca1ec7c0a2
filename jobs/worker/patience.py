"""How a worker's own threads live through a database that is away."""

from __future__ import annotations

import random
import threading
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver

from jobs import conf, database, prepared


class Backoff:
    """Waits that grow and are spread by chance, until something works again."""

    def __init__(self, first: float, cap: float) -> None:
        self._first, self._cap, self._next = first, cap, first

    def reset(self) -> None:
        self._next = self._first

    def wait(self, stop: threading.Event | None = None) -> None:
        seconds = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._cap, self._next * 2)
        (stop or threading.Event()).wait(seconds)


def drop_broken_connections() -> None:
    """The next statement of this thread opens a new connection."""
    for connection in connections.all(initialized_only=True):
        connection.close()


class _Thread(threading.local):
    belongs_to_worker = False
    claims = False


_thread = _Thread()


def guard_transactions() -> None:
    """Called first in each of the worker's own threads, never where handlers run.

    A frozen process (a paused machine, SIGSTOP) would keep the locks of its open transaction, the sweep lock of the
    whole fleet among them. PostgreSQL ends such a transaction; the worker, once it goes on, repeats it.
    """
    _thread.belongs_to_worker = True
    drop_broken_connections()


def read_by_index() -> None:
    """Called in the thread that claims, once it does nothing else: its statements may be prepared."""
    _thread.claims = True
    drop_broken_connections()


@receiver(connection_created)
def _limit_transactions(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    if (
        not _thread.belongs_to_worker
        or connection.vendor != "postgresql"
        or connection.alias != database.alias()
    ):
        return
    settings = conf.current()
    if settings.session_features:  # behind a transaction pooler the session is not ours to change
        limit = int(settings.frozen_transaction_timeout.total_seconds() * 1000)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, false)", [f"{limit}ms"]
            )
        if _thread.claims:
            prepared.read_by_index(connection)
