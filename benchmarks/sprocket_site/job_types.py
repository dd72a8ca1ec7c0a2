"""The handlers: they do little but sign the ledger."""

from __future__ import annotations

import random
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


@job_type("bench.steps")
def steps(job: JobContext, steps: int) -> None:
    """Signs each step, then says how far it is; as irregular as the steps of real work. Then it stays for a while."""
    chance = random.Random(steps)
    ledger.record(0)
    for step in range(1, steps + 1):
        time.sleep(chance.uniform(0.1, 1.5))
        ledger.record(step)
        job.progress(step)
    time.sleep(3)
