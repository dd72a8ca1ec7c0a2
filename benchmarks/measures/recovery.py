"""Recovery: from `kill -9` of a worker and all its processes to the next run of its job by another worker."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.bench import Bench
from benchmarks.contender import SPROCKET
from benchmarks.findings import Finding, judged

_PATIENCE = 60
_SLEEP = 600.0
_SETTLE = 1.0


def recovery(bench: Bench) -> list[Finding]:
    return [
        _kill_workers(bench, "on the same host", limit=2, victim_host=None),
        _kill_workers(bench, "on another host", limit=10, victim_host="elsewhere"),
    ]


def _kill_workers(bench: Bench, where: str, *, limit: float, victim_host: str | None) -> Finding:
    times = []
    for _ in range(bench.effort.recoveries):
        times.append(_kill_one(bench, victim_host))
        bench.say(f"killed {where}: its job ran again after {times[-1]:.2f} s")
    return judged(
        f"kill -9 of a worker {where} → its job runs again",
        f"≤ {limit:g} s",
        f"{median(times):.2f} s, at worst {max(times):.2f} s",
        max(times) <= limit,
        seconds=times,
    )


def _kill_one(bench: Bench, victim_host: str | None) -> float:
    victim, heir = SPROCKET.given(name="victim", concurrency=1), SPROCKET.given(name="heir")
    elsewhere = {"BENCH_HOST": victim_host} if victim_host else {}
    with bench.driver(SPROCKET) as driver:
        driver.prepare()
        bench.ledger.clear()
        with bench.workers(victim, driver, environment=elsewhere) as doomed:
            driver.extra("enqueue_sleeper", 1, _SLEEP)
            bench.ledger.wait_for(1)
            with bench.workers(heir, driver):
                driver.enqueue(2)
                bench.ledger.wait_for(2)  # the victim has its hands full: this was the heir
                time.sleep(_SETTLE)
                killed = time.monotonic()
                doomed.kill()
                return bench.ledger.wait_for(1, times=2, timeout=_PATIENCE).at - killed
