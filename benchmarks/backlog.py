"""One backlog of no-op jobs, drained once by real workers.

The clock starts when every worker process has run its first job (start-up is excluded) and stops when the
ledger holds every job and the queue's own books say that nothing is left. A subject that needs longer than
the limit is stopped, and what it ran until then counts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.contender import Contender
from benchmarks.driver import Driver
from benchmarks.ledger import Run, run_more_than_once
from benchmarks.processes import Workers

_START_UP_SECONDS = 30
_BOOKS_SECONDS = 5


@dataclass(frozen=True)
class Drain:
    rate: float
    executed: int
    processes: int
    complete: bool


def drain(bench: Bench, contender: Contender, *, limit: float) -> Drain:
    jobs = bench.effort.backlog
    with bench.driver(contender) as driver:
        driver.prepare()
        driver.enqueue_many(range(jobs))
        bench.settle(contender)
        bench.ledger.clear()
        with bench.workers(contender, driver) as workers:
            _wait_for_the_first(bench, contender, workers)
            complete = _wait_for_the_last(bench, driver, jobs, limit)
            finished = time.monotonic()
    runs = bench.ledger.runs()
    _demand_exactly_once(contender, runs, jobs if complete else None)
    return _rated([run for run in runs if run.at <= finished], finished, complete)


def _wait_for_the_first(bench: Bench, contender: Contender, workers: Workers) -> None:
    deadline = time.monotonic() + _START_UP_SECONDS
    while len(bench.ledger) == 0:
        workers.check_alive()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{contender.label} ran nothing within {_START_UP_SECONDS} s")
        time.sleep(0.005)


def _wait_for_the_last(bench: Bench, driver: Driver, jobs: int, limit: float) -> bool:
    """True when all jobs have run and are completed; False when the time is up."""
    deadline = time.monotonic() + limit
    while len(bench.ledger) < jobs:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    deadline = time.monotonic() + _BOOKS_SECONDS
    while left := driver.unfinished():
        if time.monotonic() > deadline:
            raise RuntimeError(f"all jobs ran, but {left} are not completed")
        time.sleep(0.002)
    return True


def _demand_exactly_once(contender: Contender, runs: Sequence[Run], expected: int | None) -> None:
    if twice := run_more_than_once(runs):
        raise RuntimeError(f"{contender.label} ran {len(twice)} jobs more than once, such as {twice[:5]}")
    if expected is not None and len(runs) != expected:
        raise RuntimeError(f"{contender.label} ran {len(runs)} of {expected} jobs")


def _rated(runs: Sequence[Run], finished: float, complete: bool) -> Drain:
    firsts: dict[int, float] = {}
    for run in runs:
        firsts.setdefault(run.pid, run.at)
    started = max(firsts.values())
    counted = sum(run.at > started for run in runs)
    if counted < len(runs) / 2:  # a process came too late to be waited for
        started, counted = runs[0].at, len(runs) - 1
    return Drain(counted / (finished - started), len(runs), len(firsts), complete)
