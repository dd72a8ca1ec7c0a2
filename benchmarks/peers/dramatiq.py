"""dramatiq on Redis, its own command with processes and threads as asked."""

from __future__ import annotations

from collections.abc import Sequence

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

from benchmarks import ledger
from benchmarks.subject import Options, Subject, redis_url

broker = RedisBroker(url=redis_url())
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=0)
def noop(index: int) -> None:
    ledger.record(index)


class Dramatiq:
    def __init__(self) -> None:
        self._books = redis.Redis.from_url(redis_url())

    def prepare(self) -> None:
        self._books.flushdb()

    def enqueue(self, index: int) -> None:
        noop.send(index)

    def enqueue_many(self, indexes: Sequence[int]) -> None:
        for index in indexes:  # dramatiq has no bulk call
            noop.send(index)

    def unfinished(self) -> int:
        return int(self._books.hlen("dramatiq:default.msgs"))  # emptied by acknowledgements

    def workers(self, options: Options) -> list[list[str]]:
        command = ["python", "-m", "dramatiq", __name__]
        for name in ("processes", "threads"):
            if name in options:
                command += [f"--{name}", str(options[name])]
        return [command]


def subject() -> Subject:
    return Dramatiq()
