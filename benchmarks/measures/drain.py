"""Drain: how fast workers empty a backlog of no-op jobs, beside everyone else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.backlog import drain
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
from benchmarks.pgbench import Pgbench
from benchmarks.servers import ServerMissing


@dataclass(frozen=True)
class Rival:
    label: str
    factor: float | None
    """How many times its rate is the target; None: there is none."""
    take_turn: Callable[[], float]


def one_process(bench: Bench) -> list[Finding]:
    """One worker process each, with the concurrency that suits it best; PgQueuer with its default batch."""
    ours = _best_of(bench, _concurrencies(SPROCKET))
    rivals = [
        _queue(bench, _best_of(bench, [PROCRASTINATE, PROCRASTINATE.given(concurrency=10)]), 10),
        _queue(bench, _best_of(bench, [HUEY_REDIS, HUEY_REDIS.given(threads=4)]), 2),
        _queue(bench, PGQUEUER, 1),
    ]
    return _against(bench, "drain, 1 process, PostgreSQL", ours, rivals, rounds=bench.effort.rounds)


def as_shipped(bench: Bench) -> list[Finding]:
    """One worker process each, no option given: what somebody gets who reads no further."""
    rivals = [_queue(bench, peer, None) for peer in (PROCRASTINATE, HUEY_REDIS, PGQUEUER)]
    return _against(bench, "drain, 1 process, nobody tuned", SPROCKET, rivals, rounds=1)


def best_configuration(bench: Bench) -> list[Finding]:
    """Everyone with the configuration that is fastest in a short trial on this machine."""
    sprockets = [SPROCKET.given(processes=2, concurrency=concurrency) for concurrency in (500, 200, 50)]
    pgqueuers = [PGQUEUER.given(processes=2, batch=batch) for batch in (200, 1000, 50)]
    dramatiqs = [DRAMATIQ.given(processes=2, threads=threads) for threads in (16, 32, 8)]
    ours = _best_of(bench, [*sprockets, SPROCKET.given(concurrency=500)])
    rivals = [
        _queue(bench, PGQUEUER.given(processes=2), 1.5),
        _queue(bench, _best_of(bench, pgqueuers), 1.5),
        _queue(bench, _best_of(bench, dramatiqs), 2),
        _bare_postgres(bench, 0.2),
    ]
    return _against(bench, "drain, best configuration", ours, rivals, rounds=bench.effort.rounds)


def sqlite(bench: Bench) -> list[Finding]:
    """One worker process each, SQLite in WAL mode with synchronous=FULL."""
    ours = _best_of(bench, _concurrencies(SPROCKET_SQLITE))
    rivals = [_queue(bench, HUEY_SQLITE, 2), _queue(bench, DJANGO_TASKS_DB, 10)]
    return _against(bench, "drain, 1 process, SQLite", ours, rivals, rounds=bench.effort.rounds)


def _concurrencies(contender: Contender) -> list[Contender]:
    return [*(contender.given(concurrency=concurrency) for concurrency in (500, 200, 50)), contender]


def _queue(bench: Bench, contender: Contender, factor: float | None) -> Rival:
    return Rival(contender.label, factor, partial(drain_aloud, bench, contender))


def _bare_postgres(bench: Bench, factor: float) -> Rival:
    """pgbench, with the number of clients that suits the machine best."""
    pgbench = Pgbench(bench.postgres)
    pgbench.prepare()

    def claims(clients: int) -> float:
        rate = pgbench.claims(bench.effort.backlog * 4, clients)
        bench.say(f"pgbench claim-50/complete-50, {clients} clients: {rate:,.0f}/s")
        return rate

    best = 2
    if bench.effort.trial_seconds is not None:
        try:
            best = max((2, 4, 1), key=claims)
        except ServerMissing as missing:
            bench.say(str(missing))
    return Rival(f"pgbench claim-50/complete-50 ({best} clients)", factor, partial(claims, best))


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
    bench: Bench, measure: str, ours: Contender, rivals: Sequence[Rival], *, rounds: int
) -> list[Finding]:
    """Rounds of ours, rival, ours, next rival …; medians are compared."""
    our_rates: list[float] = []
    rates: dict[str, list[float]] = {rival.label: [] for rival in rivals}
    broken: dict[str, Exception] = {}
    for _ in range(rounds):
        for rival in rivals:
            our_rates.append(drain_aloud(bench, ours))
            if rival.label in broken:
                continue
            try:
                rates[rival.label].append(rival.take_turn())
            except RuntimeError as error:
                bench.say(f"{rival.label}: {error}")
                broken[rival.label] = error
    title = f"{measure}: {ours.label}"
    return [
        not_measured(title, wanted(rival.label, rival.factor), broken[rival.label])
        if rival.label in broken
        else compare_rates(title, our_rates, rival.label, rates[rival.label], factor=rival.factor)
        for rival in rivals
    ]


def drain_aloud(bench: Bench, contender: Contender) -> float:
    result = drain(bench, contender, limit=bench.effort.drain_seconds)
    part = "" if result.complete else f", {result.executed:,} jobs in time"
    processes = f" in {result.processes} processes" if result.processes > 1 else ""
    bench.say(f"{contender.label}: {result.rate:,.0f}/s{processes}{part}")
    return result.rate
