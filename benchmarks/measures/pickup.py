"""Pick-up: from the call of enqueue to the first line of the handler, with one idle worker.

The jobs come one at a time with irregular pauses, so each finds the worker asleep. The clock starts before
the call, so the commit (with its fsync on PostgreSQL, without on Redis) is part of it.
"""

from __future__ import annotations

import random

from benchmarks.bench import Bench
from benchmarks.contender import CELERY, SPROCKET, Contender
from benchmarks.findings import Finding, judged, not_measured, percentile

_WARM_UP = 5
_MEASURE = "pick-up, idle worker, PostgreSQL"


def pickup(bench: Bench) -> list[Finding]:
    rivals = [CELERY, CELERY.given(pool="solo")]
    ours: list[float] = []
    theirs: dict[str, list[float]] = {rival.label: [] for rival in rivals}
    broken: dict[str, Exception] = {}
    for _ in range(bench.effort.rounds):
        for rival in rivals:
            ours += latencies(bench, SPROCKET)
            try:
                theirs[rival.label] += latencies(bench, rival)
            except (RuntimeError, TimeoutError) as error:
                broken[rival.label] = error
    p50, p99 = percentile(ours, 0.5), percentile(ours, 0.99)
    findings = [
        not_measured(_MEASURE, f"p50 ≤ {label}", broken[label])
        if label in broken
        else _against(p50, label, latencies)
        for label, latencies in theirs.items()
    ]
    measured = f"p50 {_ms(p50)}, p99 {_ms(p99)} = {p99 / p50:.1f} ×"
    return [*findings, judged(_MEASURE, "p99 ≤ 3 × its p50", measured, p99 <= 3 * p50, ours=ours)]


def _against(ours: float, label: str, latencies: list[float]) -> Finding:
    theirs = percentile(latencies, 0.5)
    measured = f"{_ms(ours)} : {_ms(theirs)} (its p99 {_ms(percentile(latencies, 0.99))})"
    return judged(_MEASURE, f"p50 ≤ {label}", measured, ours <= theirs, theirs=latencies)


def latencies(bench: Bench, contender: Contender) -> list[float]:
    """Seconds from call to handler, job by job."""
    count = bench.effort.pickups
    chance = random.Random(count)  # the same pauses for everyone
    jobs = range(_WARM_UP, _WARM_UP + count)
    with bench.driver(contender) as driver:
        driver.prepare()
        bench.settle(contender)
        bench.ledger.clear()
        with bench.workers(contender, driver):
            for index in range(_WARM_UP):
                driver.enqueue_spaced(range(index, index + 1), [0.3])
                bench.ledger.wait_for(index)
            sent = driver.enqueue_spaced(jobs, [chance.uniform(0.04, 0.12) for _ in jobs])
            bench.ledger.wait_for(jobs[-1])
    started = {run.index: run.at for run in bench.ledger.runs()}
    found = [started[job.index] - job.called for job in sent]
    bench.say(f"{contender.label}: p50 {_ms(percentile(found, 0.5))}, p99 {_ms(percentile(found, 0.99))}")
    return found


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
