"""Drain: how fast workers empty a backlog of no-op jobs.

The clock starts when every worker process has run its first job (start-up is excluded) and stops when the
ledger holds every job and the queue's own books say that nothing is left. A subject that needs longer than
the limit is stopped, and what it ran until then counts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.bench import Bench
from benchmarks.contender import (
    DJANGO_TASKS_DB,
    DRAMATIQ,
    HUEY_REDIS,
    HUEY_SQLITE,
    PGQUEUER,
    PROCRASTINATE,
    SPROCKET,
    SPROCKET_SQLITE,
    Contender,
)
from benchmarks.findings import Finding, compare_rates, not_measured, wanted
from benchmarks.ledger import Run, run_more_than_once
from benchmarks.pgbench import Pgbench

_START_UP_SECONDS = 30


@dataclass(frozen=True)
class Drain:
    rate: float
    executed: int
    processes: int
    complete: bool


@dataclass(frozen=True)
class Rival:
    contender: Contender
    factor: float | None


def one_process(bench: Bench) -> list[Finding]:
    """One worker process each, with the concurrency that suits it best; PgQueuer with its default batch."""
    return _against(
        bench,
        "drain, 1 process, PostgreSQL",
        _best_of(bench, _concurrencies(SPROCKET)),
        [
            Rival(_best_of(bench, [PROCRASTINATE, PROCRASTINATE.given(concurrency=10)]), 10),
            Rival(_best_of(bench, [HUEY_REDIS, HUEY_REDIS.given(threads=4)]), 2),
            Rival(PGQUEUER, 1),
        ],
    )


def as_shipped(bench: Bench) -> list[Finding]:
    """One worker process each, no option given: what somebody gets who reads no further."""
    rivals = [Rival(PROCRASTINATE, None), Rival(HUEY_REDIS, None), Rival(PGQUEUER, None)]
    return _against(bench, "drain, 1 process, nobody tuned", SPROCKET, rivals, rounds=1)


def best_configuration(bench: Bench) -> list[Finding]:
    """Everyone with the configuration that is fastest in a short trial on this machine."""
    sprockets = [SPROCKET.given(processes=2, concurrency=concurrency) for concurrency in (500, 200, 50)]
    pgqueuers = [PGQUEUER.given(processes=2, batch=batch) for batch in (200, 1000, 50)]
    dramatiqs = [DRAMATIQ.given(processes=2, threads=threads) for threads in (16, 32, 8)]
    return _against(
        bench,
        "drain, best configuration",
        _best_of(bench, [*sprockets, SPROCKET.given(concurrency=500)]),
        [
            Rival(PGQUEUER.given(processes=2), 1.5),
            Rival(_best_of(bench, pgqueuers), 1.5),
            Rival(_best_of(bench, dramatiqs), 2),
        ],
        pgbench_share=0.2,
    )


def sqlite(bench: Bench) -> list[Finding]:
    """One worker process each, SQLite in WAL mode with synchronous=FULL."""
    return _against(
        bench,
        "drain, 1 process, SQLite",
        _best_of(bench, _concurrencies(SPROCKET_SQLITE)),
        [Rival(HUEY_SQLITE, 2), Rival(DJANGO_TASKS_DB, 10)],
    )


def _concurrencies(contender: Contender) -> list[Contender]:
    return [*(contender.given(concurrency=concurrency) for concurrency in (500, 200, 50)), contender]


def drain(bench: Bench, contender: Contender, *, limit: float) -> Drain:
    """One backlog, drained once."""
    jobs = bench.effort.backlog
    with bench.driver(contender) as driver:
        driver.prepare()
        driver.enqueue_many(range(jobs))
        bench.settle(contender)
        bench.ledger.clear()
        with bench.workers(contender, driver) as workers:
            deadline = time.monotonic() + _START_UP_SECONDS
            while len(bench.ledger) == 0:
                workers.check_alive()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{contender.label} ran nothing within {_START_UP_SECONDS} s")
                time.sleep(0.005)
            deadline = time.monotonic() + limit
            while (complete := len(bench.ledger) >= jobs) is False and time.monotonic() < deadline:
                time.sleep(0.005)
            while complete and driver.unfinished() and time.monotonic() < deadline + 5:
                time.sleep(0.002)
            finished = time.monotonic()
    runs = bench.ledger.runs()
    _demand_exactly_once(contender, runs, jobs if complete else None)
    in_time = [run for run in runs if run.at <= finished]
    return _rate(in_time, finished, complete)


def _rate(runs: Sequence[Run], finished: float, complete: bool) -> Drain:
    firsts: dict[int, float] = {}
    for run in runs:
        firsts.setdefault(run.pid, run.at)
    started = max(firsts.values())
    counted = sum(run.at > started for run in runs)
    if counted < len(runs) / 2:  # a process came too late to be waited for
        started, counted = runs[0].at, len(runs) - 1
    return Drain(counted / (finished - started), len(runs), len(firsts), complete)


def _demand_exactly_once(contender: Contender, runs: Sequence[Run], expected: int | None) -> None:
    if twice := run_more_than_once(runs):
        raise RuntimeError(f"{contender.label} ran {len(twice)} jobs more than once, such as {twice[:5]}")
    if expected is not None and len(runs) != expected:
        raise RuntimeError(f"{contender.label} ran {len(runs)} of {expected} jobs")


def _best_of(bench: Bench, candidates: Sequence[Contender]) -> Contender:
    """The fastest of several configurations, the likeliest of which comes first; that one if none is tried."""
    seconds = bench.effort.trial_seconds
    if seconds is None:
        return candidates[0]
    rates: dict[int, float] = {}
    for index, candidate in enumerate(candidates):
        try:
            rates[index] = drain(bench, candidate, limit=seconds).rate
        except RuntimeError as error:
            bench.say(f"trial: {candidate.label}: {error}")
        else:
            bench.say(f"trial: {candidate.label}: {rates[index]:,.0f}/s")
    return candidates[max(rates, key=lambda index: rates[index], default=0)]


def _against(
    bench: Bench,
    measure: str,
    ours: Contender,
    rivals: Sequence[Rival],
    *,
    rounds: int | None = None,
    pgbench_share: float | None = None,
) -> list[Finding]:
    """Rounds of ours, rival, ours, next rival …; medians are compared."""
    our_rates: list[float] = []
    rates: dict[str, list[float]] = {rival.contender.label: [] for rival in rivals}
    broken: dict[str, Exception] = {}
    pgbench = _PgbenchClaims(bench) if pgbench_share else None
    for _ in range(rounds or bench.effort.rounds):
        for label, contender in ((rival.contender.label, rival.contender) for rival in rivals):
            our_rates.append(_drain_aloud(bench, ours))
            if label in broken:
                continue
            try:
                rates[label].append(_drain_aloud(bench, contender))
            except RuntimeError as error:
                bench.say(f"{label}: {error}")
                broken[label] = error
        if pgbench:
            pgbench.take_turn()
    findings = []
    for rival in rivals:
        label = rival.contender.label
        if label in broken:
            findings.append(not_measured(measure, wanted(label, rival.factor), broken[label]))
        else:
            findings.append(compare_rates(measure, our_rates, label, rates[label], factor=rival.factor))
    if pgbench:
        label = f"pgbench claim-50/complete-50 ({pgbench.clients} clients)"
        findings.append(compare_rates(measure, our_rates, label, pgbench.rates, factor=pgbench_share))
    return [replace(finding, measure=f"{measure}: {ours.label}") for finding in findings]


class _PgbenchClaims:
    """pgbench as one more rival, with the number of clients that suits the machine best."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._pgbench = Pgbench(bench.postgres)
        self._pgbench.prepare()
        self.rates: list[float] = []
        candidates = (2,) if bench.effort.trial_seconds is None else (2, 4, 1)
        trials = {clients: self._turn(clients) for clients in candidates}
        self.clients = max(trials, key=lambda clients: trials[clients])

    def take_turn(self) -> None:
        self.rates.append(self._turn(self.clients))

    def _turn(self, clients: int) -> float:
        rate = self._pgbench.claims(self._bench.effort.backlog * 4, clients)
        self._bench.say(f"pgbench claim-50/complete-50, {clients} clients: {rate:,.0f}/s")
        return rate


def _drain_aloud(bench: Bench, contender: Contender) -> float:
    result = drain(bench, contender, limit=bench.effort.drain_seconds)
    part = "" if result.complete else f", {result.executed:,} jobs in time"
    processes = f" in {result.processes} processes" if result.processes > 1 else ""
    bench.say(f"{contender.label}: {result.rate:,.0f}/s{processes}{part}")
    return result.rate
