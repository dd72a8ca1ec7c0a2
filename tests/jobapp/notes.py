"""Handlers write down what they did in a file; tests read it, whatever became of the worker."""

import json
import os
import time
from pathlib import Path
from typing import Any

from jobs import JobContext, JobStopped


def note(log: str, job: JobContext, event: str = "run", **facts: Any) -> None:
    """Append one line; a single write in append mode is never torn, however many processes write."""
    line = {"event": event, "job": job.id, "attempt": job.attempt, "pid": os.getpid(), **facts}
    file = os.open(log, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


def note_stop(log: str, job: JobContext) -> None:
    """From the `except JobStopped` of a handler, which may be interrupted once more while it writes."""
    try:
        note(log, job, "stopped", reason=job.stop_reason)
    except JobStopped:
        note(log, job, "stopped", reason=job.stop_reason)


def read_notes(log: str | Path, event: str | None = None) -> list[dict[str, Any]]:
    path = Path(log)
    lines = path.read_text().splitlines() if path.exists() else []
    notes = [json.loads(line) for line in lines]
    return [line for line in notes if event is None or line["event"] == event]


def wait_for_file(path: str, *, seconds: float = 60) -> None:
    """Hold the handler here until the test creates the file (or is long gone)."""
    deadline = time.monotonic() + seconds
    while not Path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
