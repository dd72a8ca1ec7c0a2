"""Huey, on Redis or (when BENCH_SQLITE_PATH is set) on SQLite with synchronous=FULL."""

from __future__ import annotations

import os
from collections.abc import Sequence

from huey import RedisHuey, SqliteHuey

from benchmarks import ledger
from benchmarks.subject import Options, Subject, redis_url, sqlite_path

if "BENCH_SQLITE_PATH" in os.environ:
    huey = SqliteHuey("bench", filename=sqlite_path(), fsync=True)
else:
    huey = RedisHuey("bench", url=redis_url())


@huey.task()
def noop(index: int) -> None:
    ledger.record(index)


class Huey:
    def prepare(self) -> None:
        huey.flush()

    def enqueue(self, index: int) -> None:
        noop(index)

    def enqueue_many(self, indexes: Sequence[int]) -> None:
        for index in indexes:  # Huey has no bulk call
            noop(index)

    def unfinished(self) -> int:
        # A job leaves the queue before it runs; only the ledger knows that it ran.
        return int(huey.pending_count())

    def workers(self, options: Options) -> list[list[str]]:
        command = ["python", "-m", "huey.bin.huey_consumer", f"{__name__}.huey", "--quiet"]
        if "threads" in options:
            command += ["--workers", str(options["threads"]), "--worker-type", "thread"]
        return [command]


def subject() -> Subject:
    return Huey()
