"""The handlers: they do nothing but sign the ledger."""

from __future__ import annotations

import time

from benchmarks import ledger
from jobs import JobContext, job_type


@job_type("bench.noop", remote=True)
def noop(job: JobContext, index: int) -> None:
    ledger.record(index)


@job_type("bench.sleep")
def sleep(job: JobContext, index: int, seconds: float) -> None:
    """Signs, then stays for a while: a job that its worker can be killed over."""
    ledger.record(index)
    until = time.monotonic() + seconds
    while time.monotonic() < until and not job.should_stop:
        time.sleep(0.05)
