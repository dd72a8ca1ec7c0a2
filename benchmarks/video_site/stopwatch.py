"""When each handler began and ended: a line of JSON each, appended to one file, by CLOCK_MONOTONIC."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs import JobContext


def path() -> Path:
    return Path(os.environ["BENCH_FOLDER"]) / "handlers"


def timed(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def run(job: JobContext, **payload: Any) -> Any:
        began = time.monotonic()
        try:
            return handler(job, **payload)
        finally:
            _write(job.lease.job_id, began, time.monotonic())

    return run


def runs() -> dict[str, tuple[float, float]]:
    """By job: when its last run began and ended."""
    lines = path().read_text().splitlines() if path().exists() else []
    return {job: (began, ended) for job, began, ended in map(json.loads, lines)}


def _write(*record: object) -> None:
    descriptor = os.open(path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, json.dumps(record).encode() + b"\n")
    os.close(descriptor)
