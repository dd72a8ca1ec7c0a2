"""What one open page has not been sent yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from jobs.live.topic import Topic


class Mailbox:
    """Never holds more than one state, however slow the page is: newer values replace older ones."""

    def __init__(self, topics: Sequence[Topic], wake: Callable[[], None], last_event_id: str = "") -> None:
        self.topics = topics
        self._wake = wake
        self._lock = threading.Lock()
        self._pending: dict[str, str] = {}
        self._met: set[str] = set()
        self.made_at = self.taken_at = time.monotonic()
        self.is_closed = False
        versions = last_event_id.split(",")
        self._versions = (
            {topic.name: version for topic, version in zip(topics, versions, strict=True)}
            if len(versions) == len(topics)
            else {}
        )

    def has(self, topic: Topic, version: str) -> bool:
        return self._versions.get(topic.name) == version

    def put(self, topic: Topic, version: str, whole: Mapping[str, str], changed: Mapping[str, str]) -> None:
        """At first the whole state, unless the page has it from before; then what changed."""
        with self._lock:
            news = changed if topic.name in self._met else whole
            self._met.add(topic.name)
            if self.has(topic, version):
                return
            self._versions[topic.name] = version
            self._pending.update(news)
        self._wake()

    def take(self) -> tuple[str, dict[str, str]]:
        """The id of the state that the page will have, and the values it lacks."""
        with self._lock:
            self.taken_at = time.monotonic()
            pending, self._pending = self._pending, {}
            return ",".join(self._versions.get(topic.name, "") for topic in self.topics), pending

    def close(self) -> None:
        """Nothing more will come: its stream ends."""
        self.is_closed = True
        self._wake()
