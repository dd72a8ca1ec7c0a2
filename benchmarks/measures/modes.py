"""Each QUEUE_MODE: pick-up with an idle worker, and a drained backlog. Redis may not make either slower by much."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.contender import SPROCKET
from benchmarks.findings import Finding, compare_rates, judged, not_measured, percentile
from benchmarks.measures.drain import drain_aloud
from benchmarks.measures.pickup import latencies

_DATABASE = SPROCKET.given(mode="database")
_OTHERS = [
    SPROCKET.given(mode="redis"),
    SPROCKET.given(mode="hybrid"),
    SPROCKET.given(mode="hybrid", redis="away"),
]
_SLOWER = 2.0
_DRAINED = 0.9


def pickup(bench: Bench) -> list[Finding]:
    target = f"p50 ≤ {_SLOWER:g} × mode database"
    findings = []
    for contender in _OTHERS:
        title = f"pick-up: {contender.label}"
        ours: list[float] = []
        usual: list[float] = []
        try:
            for _ in range(bench.effort.rounds):
                usual += latencies(bench, _DATABASE)
                ours += latencies(bench, contender)
        except (RuntimeError, TimeoutError) as error:
            findings.append(not_measured(title, target, error))
            continue
        p50, base = percentile(ours, 0.5), percentile(usual, 0.5)
        measured = (
            f"{p50 * 1000:.1f} ms (p99 {percentile(ours, 0.99) * 1000:.1f} ms)"
            f" : {base * 1000:.1f} ms (p99 {percentile(usual, 0.99) * 1000:.1f} ms)"
        )
        findings.append(judged(title, target, measured, p50 <= _SLOWER * base, ours=ours, database=usual))
    return findings


def drain(bench: Bench) -> list[Finding]:
    findings = []
    for contender in _OTHERS:
        title = f"drain, 1 process: {contender.label}"
        ours: list[float] = []
        usual: list[float] = []
        try:
            for _ in range(bench.effort.rounds):
                usual.append(drain_aloud(bench, _DATABASE.given(concurrency=200)))
                ours.append(drain_aloud(bench, contender.given(concurrency=200)))
        except RuntimeError as error:
            findings.append(not_measured(title, f"≥ {_DRAINED:.0%} of mode database", error))
            continue
        findings.append(compare_rates(title, ours, "mode database", usual, factor=_DRAINED))
    return findings
