"""Live pages hear through Redis pub/sub, and through their database while Redis is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from jobs.live.sources import Alarm, Source
from jobs.wakeup.redis_link import BLOCK, key
from jobs.wakeup.redis_listener import Listener
from jobs.wakeup.streams import LIVE

if TYPE_CHECKING:
    from redis import Redis


class Broadcast:
    """One source beside Redis, for what is not announced there, and one in its place."""

    def __init__(self, beside: Source, *, without: Source) -> None:
        self._beside = beside
        self._without = without
        self._subscriber: Subscriber | None = None

    def open(self) -> None:
        self._beside.open()
        if self._without is not self._beside:
            self._without.open()

    def wait(self, seconds: float, alarm: Alarm) -> bool:
        if self._subscriber is None:
            self._subscriber = Subscriber(alarm.ring)
            self._subscriber.start()
        source = self._beside if self._subscriber.is_connected else self._without
        changed = source.wait(seconds, alarm)
        return self._subscriber.take() or changed

    def close(self) -> None:
        if self._subscriber:
            self._subscriber.silence()


class Subscriber(Listener):
    what = "changes for live pages"

    def __init__(self, ring: Callable[[], None]) -> None:
        super().__init__("live-redis")
        self._ring = ring
        self._lock = threading.Lock()
        self._heard = False

    def take(self) -> bool:
        """Whether there was news since the last time."""
        heard, self._heard = self._heard, False
        return heard

    def silence(self) -> None:
        """Once this returns, it does not ring."""
        with self._lock:
            self.ask_to_stop()

    def _listen(self, client: Redis) -> None:
        from redis import TimeoutError

        with client.pubsub() as pubsub:  # type: ignore[no-untyped-call]
            pubsub.subscribe(key(LIVE))
            unanswered = 0
            while not self._stopping.is_set():
                message = pubsub.get_message(timeout=BLOCK)
                if message is None:
                    if unanswered:
                        raise TimeoutError("it does not answer")
                    pubsub.ping()
                    unanswered += 1
                    continue
                unanswered = 0
                if message["type"] == "subscribe":
                    self._connected()
                if message["type"] in ("subscribe", "message"):
                    self._news()

    def _lost(self) -> None:
        if self.is_connected:
            super()._lost()
            self._news()

    def _news(self) -> None:
        with self._lock:
            if not self._stopping.is_set():
                self._heard = True
                self._ring()
