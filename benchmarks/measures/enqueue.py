"""Enqueue: jobs per second from one client, in bulk and one by one. Each call is durable when it returns."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.contender import PGQUEUER, SPROCKET, Contender
from benchmarks.findings import Finding, compare_rates
from benchmarks.pgbench import Pgbench


def bulk(bench: Bench) -> list[Finding]:
    """One call with thousands of jobs, several times in a row into a growing table."""
    count = bench.effort.bulk
    rates: dict[str, list[float]] = {SPROCKET.label: [], PGQUEUER.label: []}
    for _ in range(bench.effort.rounds):
        for contender in (SPROCKET, PGQUEUER):
            rate = _bulk_rate(bench, contender, count)
            bench.say(f"{contender.label}: {count:,} jobs at once: {rate:,.0f}/s")
            rates[contender.label].append(rate)
    return [
        compare_rates(
            f"enqueue_many of {count:,}",
            rates[SPROCKET.label],
            PGQUEUER.label,
            rates[PGQUEUER.label],
            factor=1,
        )
    ]


def single(bench: Bench) -> list[Finding]:
    """One job per call and commit."""
    count = bench.effort.singles
    pgbench = Pgbench(bench.postgres)
    pgbench.prepare()
    ours, theirs = [], []
    for _ in range(bench.effort.rounds):
        with bench.driver(SPROCKET) as driver:
            driver.prepare()
            bench.settle(SPROCKET)
            driver.enqueue_each(range(count // 10))
            ours.append(count / driver.enqueue_each(range(count)))
        theirs.append(pgbench.inserts(count))
        bench.say(f"one by one: Sprocket {ours[-1]:,.0f}/s, pgbench {theirs[-1]:,.0f}/s")
    return [compare_rates("enqueue, one by one", ours, "pgbench single INSERT", theirs, factor=0.5)]


def _bulk_rate(bench: Bench, contender: Contender, count: int) -> float:
    with bench.driver(contender) as driver:
        driver.prepare()
        bench.settle(contender)
        driver.enqueue_many(range(100))  # connections and prepared statements are there
        return count / driver.enqueue_many(range(count))
