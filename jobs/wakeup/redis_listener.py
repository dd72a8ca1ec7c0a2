"""A thread that listens to Redis, and comes back to it after whatever happened."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from jobs.wakeup.redis_link import RECONNECT_CAP, listening_client

if TYPE_CHECKING:
    from redis import Redis

log = logging.getLogger("jobs.wakeup")

_RECONNECT_FIRST = 0.1


class Listener(ABC):
    """Subclasses listen until told to stop, or until it raises."""

    what: str
    """For the log: what is delayed without Redis."""

    def __init__(self, name: str) -> None:
        self.is_connected = False
        self._was_lost = False
        self._pause = _RECONNECT_FIRST
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self) -> None:
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join(timeout=3)

    @abstractmethod
    def _listen(self, client: Redis) -> None:
        """Calls `_connected` once it hears."""

    def _connected(self) -> None:
        self.is_connected = True
        if self._was_lost:
            log.info("%s are announced by Redis again", self.what)
        self._was_lost = False
        self._pause = _RECONNECT_FIRST

    def _run(self) -> None:
        while not self._stopping.is_set():
            client = listening_client()
            try:
                self._listen(client)
            except Exception as error:
                if not self._was_lost and not self._stopping.is_set():
                    log.warning("no word from Redis (%s); %s are found without it", error, self.what)
                self._was_lost = True
            finally:
                self._lost()
                client.close()
            self._stopping.wait(self._pause)
            self._pause = min(RECONNECT_CAP, self._pause * 2)

    def _lost(self) -> None:
        self.is_connected = False
