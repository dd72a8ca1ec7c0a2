"""A subscriber of Redis channels, as anybody outside may be one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from jobs.live import channels
from tests.support.processes import wait_until
from tests.support.servers.redis_server import RedisServer, be_patient


class Subscriber:
    """Anybody with a Redis client."""

    def __init__(self, server: RedisServer, pattern: str) -> None:
        self._pubsub = server.client.pubsub()
        self._pubsub.psubscribe(pattern)
        self._pubsub.get_message(timeout=30)
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def listen(self) -> list[tuple[str, dict[str, Any]]]:
        while message := self._pubsub.get_message(timeout=0):
            self.heard.append((message["channel"].decode(), json.loads(message["data"])))
        return self.heard

    def statuses(self, worker_id: str) -> list[str]:
        return [body["status"] for _, body in self.listen() if body.get("worker_id") == worker_id]

    def close(self) -> None:
        self._pubsub.close()


@pytest.fixture(autouse=True)
def _redis(redis_server: RedisServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": "redis", "REDIS_URL": redis_server.url}
    be_patient(monkeypatch)
    monkeypatch.setattr(channels, "LINGER", 0.1)
    yield
    wait_until(lambda: "redis-channels" not in {thread.name for thread in threading.enumerate()})
