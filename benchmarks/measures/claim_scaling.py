"""Claim scaling: the rate of claims from a huge table against the rate from a small one, turn by turn."""

from __future__ import annotations

from statistics import median

from benchmarks.bench import Bench
from benchmarks.contender import SPROCKET
from benchmarks.findings import Finding, judged

_SMALL = 1_000
_BATCH = 50
_CLAIMS = 10  # per turn: half of the small table


def claim_scaling(bench: Bench) -> list[Finding]:
    rows = bench.effort.table_rows
    small, large = SPROCKET.at("small"), SPROCKET.at("large")
    small_rates, large_rates = [], []
    with bench.driver(small) as few, bench.driver(large) as many:
        few.prepare()
        many.prepare()
        bench.say(f"filling a table with {rows:,} pending and {rows:,} waiting jobs …")
        few.extra("top_up", _SMALL)
        many.extra("fill", rows, rows)
        bench.settle(small)
        bench.settle(large)
        for driver in (few, many):  # plans and caches are warm
            driver.extra("time_claims", _CLAIMS, _BATCH)
        for _ in range(bench.effort.rounds * 4):
            few.extra("top_up", _SMALL)
            small_rates.append(_CLAIMS * _BATCH / float(few.extra("time_claims", _CLAIMS, _BATCH)))
            large_rates.append(_CLAIMS * _BATCH / float(many.extra("time_claims", _CLAIMS, _BATCH)))
    share = median(large_rates) / median(small_rates)
    bench.say(f"claims: {median(small_rates):,.0f}/s small, {median(large_rates):,.0f}/s large")
    return [
        judged(
            f"claim with {rows:,} pending + {rows:,} waiting",
            f"≥ 80% of the rate with {_SMALL:,}",
            f"{median(large_rates):,.0f}/s : {median(small_rates):,.0f}/s = {share:.0%}",
            share >= 0.8,
            small=small_rates,
            large=large_rates,
        )
    ]
