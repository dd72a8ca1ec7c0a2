"""What every queue under measurement must be able to do, Sprocket included."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

Options = dict[str, int | str]


class Subject(Protocol):
    """One queue, seen from inside its own interpreter.

    A job carries its index; its handler does nothing but `benchmarks.ledger.record(index)`.
    """

    def prepare(self) -> None:
        """Leave an empty queue whose schema is in place."""

    def enqueue(self, index: int) -> None:
        """Enqueue one job by the ordinary call, durable when it returns."""

    def enqueue_many(self, indexes: Sequence[int]) -> None:
        """Enqueue a backlog by the fastest call the library offers in public."""

    def unfinished(self) -> int:
        """How many jobs are not yet completed by the queue's own books."""

    def workers(self, options: Options) -> list[list[str]]:
        """The command of each worker process to start; `python` means this interpreter."""


def database_url() -> str:
    return os.environ["BENCH_DATABASE_URL"]


def sqlite_path() -> str:
    return os.environ["BENCH_SQLITE_PATH"]


def redis_url() -> str:
    return os.environ["BENCH_REDIS_URL"]
