"""How a worker's own threads live through a database that is away."""

from __future__ import annotations

import random
import threading

from django.db import connections


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
