"""Celery on Redis: acknowledged before the run and without results, its defaults."""

from __future__ import annotations

from collections.abc import Sequence

import redis
from celery import Celery

from benchmarks import ledger
from benchmarks.subject import Options, Subject, redis_url

app = Celery("bench", broker=redis_url().replace("unix://", "redis+socket://"))


@app.task(name="noop", ignore_result=True)
def noop(index: int) -> None:
    ledger.record(index)


class CelerySubject:
    def __init__(self) -> None:
        self._books = redis.Redis.from_url(redis_url())

    def prepare(self) -> None:
        self._books.flushdb()

    def enqueue(self, index: int) -> None:
        noop.delay(index)

    def enqueue_many(self, indexes: Sequence[int]) -> None:
        for index in indexes:  # Celery has no bulk call
            noop.delay(index)

    def unfinished(self) -> int:
        return int(self._books.llen("celery")) + int(self._books.hlen("unacked"))

    def workers(self, options: Options) -> list[list[str]]:
        command = ["python", "-m", "celery", "-A", f"{__name__}:app", "worker", "--loglevel", "WARNING"]
        if "pool" in options:
            command += ["--pool", str(options["pool"])]
        if "concurrency" in options:
            command += ["--concurrency", str(options["concurrency"])]
        return [command]


def subject() -> Subject:
    return CelerySubject()
