"""Video: what the pipeline costs beside one ffmpeg (B), and what survives a killed worker.

B, the usual way and Sprocket take turns on the same source, with the same preset, bitrates and groups of pictures.
"""

from __future__ import annotations

import functools
import subprocess
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median

from benchmarks.bench import Bench
from benchmarks.contender import Contender
from benchmarks.findings import Finding, judged, not_measured
from benchmarks.video import clips, rivals, vmaf
from benchmarks.video.delivery import ONE_WORKER, TWO_WORKERS, Delivery, deliver, working
from benchmarks.video.rivals import Cost
from videos.media.plan import EncodePlan, PlanSettings

_MEGABYTE = 1024 * 1024
_MEMORY_LIMIT = 150
_KILL_AT = 50.0
_SHORT = 5
_CPU = "video: CPU from upload to ready"
_KILL = "video: kill -9 of a worker in the middle of a chunk"
_QUALITY = "video: VMAF at the same bitrate"
_MEMORY = "video: memory of a worker beside ffmpeg"


def speed(bench: Bench) -> list[Finding]:
    """Everything about the long source: CPU, wall, a killed worker, quality."""
    effort = bench.effort.video
    source = clips.film(bench.folder, height=effort.height, seconds=effort.seconds)
    plan = _plan(bench, source)
    one_thread = _best_threads(bench)
    b_folder = bench.folder / "b"
    b: list[Cost] = []
    usual: list[Cost] = []
    two: list[Delivery] = []
    one: list[Delivery] = []
    killed: list[Delivery] = []
    broken: list[Exception] = []
    quality: list[Finding] = []
    chunk = rivals.one_chunk(plan, source, bench.folder / "chunk")
    for number in range(effort.rounds):
        b.append(_told(bench, "B", rivals.one_ffmpeg(plan, source, b_folder, one_thread=one_thread)))
        two.append(_delivered(bench, TWO_WORKERS, source, plan))
        usual.append(
            _told(
                bench,
                "one ffmpeg per quality",
                rivals.one_per_quality(plan, source, bench.folder / "usual", one_thread=one_thread),
            )
        )
        one.append(_delivered(bench, ONE_WORKER, source, plan))
        if number == effort.rounds - 1:  # before the next one removes the files
            try:
                quality = _quality(bench, plan, source, ours=one[-1].folder, theirs=b_folder)
            except subprocess.CalledProcessError as error:
                quality = [not_measured(_QUALITY, "≥ B − 0.5", f"ffmpeg failed ({error.returncode})")]
        try:
            killed.append(_delivered(bench, TWO_WORKERS, source, plan, kill_at=_KILL_AT))
        except (RuntimeError, OSError) as error:
            broken.append(error)
    best = f"B ({'1 thread per encoder' if one_thread else 'its own threads'})"
    return [
        _at_most(f"{_CPU}, 2 workers", best, 1.08, _cpu(two), _cpu(b), deliveries=_record(two)),
        _at_most(f"{_CPU}, 1 worker process", best, 1.08, _cpu(one), _cpu(b), deliveries=_record(one)),
        _at_most("video: wall, 2 workers", best, 1.08, _wall(two), _wall(b)),
        _at_most("video: wall, 1 worker process", best, 1.10, _wall(one), _wall(b)),
        _at_most("video: CPU beside the usual way", "one ffmpeg per quality", 0.85, _cpu(two), _cpu(usual)),
        *(_after_kill(killed, two, plan, chunk) if killed else [not_measured(_KILL, "≤ 1 chunk", broken[0])]),
        *quality,
        _memory(f"{effort.height}p, {effort.seconds} s", [*two, *one]),
    ]


def short_clip(bench: Bench) -> list[Finding]:
    """One clip of a few seconds, one idle worker: all that is not encoding shows."""
    source = clips.film(bench.folder, height=bench.effort.video.height, seconds=_SHORT)
    plan = _plan(bench, source)
    one_thread = _best_threads(bench)
    alone: list[Cost] = []
    ready: list[Delivery] = []
    gaps: list[dict[str, float]] = []
    for _ in range(bench.effort.video.short_rounds):
        alone.append(rivals.one_ffmpeg(plan, source, bench.folder / "b", one_thread=one_thread))
        with working(bench, ONE_WORKER) as (driver, workers):
            ready.append(deliver(bench, driver, workers, source))
            gaps.append(driver.extra("gaps"))
        bench.say(f"{_SHORT} s clip: ready after {ready[-1].wall:.2f} s; B alone {alone[-1].wall:.2f} s")
    overhead = median(mean(found.values()) for found in gaps)
    worst_type, worst = max(
        ((kind, median(found[kind] for found in gaps)) for kind in gaps[0]), key=lambda pair: pair[1]
    )
    wall, encode = median(_wall(ready)), median(_wall(alone))
    return [
        judged(
            "video: queue overhead per job",
            "≤ 10 ms",
            f"{overhead * 1000:.1f} ms; most for {worst_type}: {worst * 1000:.1f} ms",
            overhead <= 0.010,
            gaps=gaps,
        ),
        judged(
            f"video: a {_SHORT} s clip is ready",
            "≤ 2 s + its encode time (B)",
            f"{wall:.2f} s = {encode:.2f} s + {wall - encode:.2f} s",
            wall <= 2 + encode,
            ours=_record(ready),
            theirs=_wall(alone),
        ),
    ]


def large_file(bench: Bench) -> list[Finding]:
    """Memory must not grow with the file: one that is large in bytes and in pictures."""
    minutes = bench.effort.video.long_minutes
    source = clips.long_film(bench.folder, minutes=minutes)
    size = source.stat().st_size
    with working(bench, ONE_WORKER) as (driver, workers):
        delivery = deliver(bench, driver, workers, source)
    bench.say(f"{size / 1e9:.2f} GB: ready after {delivery.wall:.1f} s")
    source.unlink()
    return [_memory(f"{size / 1e9:.2f} GB, {minutes} min, {minutes * 1800:,} pictures", [delivery])]


# -- turns -----------------------------------------------------------------------------------------------------------


def _plan(bench: Bench, source: Path) -> EncodePlan:
    return rivals.plan_for(source, PlanSettings(segments_per_chunk=bench.effort.video.segments_per_chunk))


@functools.cache
def _best_threads(bench: Bench) -> bool:
    """Whether B is faster with one thread per encoder (they run side by side anyway), tried on a short clip."""
    if not bench.effort.video.thread_trials:
        return False
    source = clips.film(bench.folder, height=bench.effort.video.height, seconds=_SHORT)
    plan = _plan(bench, source)
    walls: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(bench.effort.video.thread_trials):
        for one_thread, found in walls.items():
            found.append(rivals.one_ffmpeg(plan, source, bench.folder / "trial", one_thread=one_thread).wall)
    return median(walls[True]) < median(walls[False])


def _delivered(
    bench: Bench, contender: Contender, source: Path, plan: EncodePlan, *, kill_at: float | None = None
) -> Delivery:
    with working(bench, contender) as (driver, workers):
        delivery = deliver(bench, driver, workers, source, kill_at=kill_at)
        if EncodePlan.from_json(driver.extra("plan", delivery.video)) != plan:
            raise RuntimeError("the pipeline has encoded by another plan than its rivals")
    name = contender.label + (" one killed" if kill_at else "")
    _told(bench, name, Cost(wall=delivery.wall, cpu=delivery.cpu))
    return delivery


def _told(bench: Bench, name: str, cost: Cost) -> Cost:
    bench.say(f"{name}: {cost.wall:.1f} s, {cost.cpu:.1f} s of CPU")
    return cost


# -- findings --------------------------------------------------------------------------------------------------------


def _at_most(
    measure: str, rival: str, factor: float, ours: list[float], theirs: list[float], **numbers: object
) -> Finding:
    """Our median against a rival's, in seconds."""
    our_median, their_median = median(ours), median(theirs)
    ratio = our_median / their_median
    target, reached = (
        (f"≤ {factor:.0%} of {rival}", f"{ratio:.0%}")
        if factor < 1
        else (f"≤ {factor:.2f} × {rival}", f"{ratio:.2f} ×")
    )
    return judged(
        measure,
        target,
        f"{our_median:.1f} s : {their_median:.1f} s = {reached}",
        ratio <= factor,
        ratio=ratio,
        ours=ours,
        theirs=theirs,
        **numbers,
    )


def _after_kill(
    killed: list[Delivery], unharmed: list[Delivery], plan: EncodePlan, chunk: Cost
) -> list[Finding]:
    again = [sum(delivery.encodes.values()) - plan.total_chunks for delivery in killed]
    extra = [(delivery.cpu - median(_cpu(unharmed))) / chunk.cpu for delivery in killed]
    return [
        judged(
            _KILL,
            "≤ 1 chunk begun again",
            f"{max(again)} of {plan.total_chunks}",
            max(again) <= 1,
            again=again,
            deliveries=_record(killed),
        ),
        judged(
            _KILL,
            "extra CPU ≤ 1 chunk",
            f"{median(extra):.2f} of a chunk's {chunk.cpu:.1f} s",
            median(extra) <= 1,
            extra=extra,
            chunk=asdict(chunk),
        ),
    ]


def _quality(bench: Bench, plan: EncodePlan, source: Path, *, ours: Path, theirs: Path) -> list[Finding]:
    findings = []
    for rendition in plan.renditions:
        scores, rates = [], []
        for folder in (ours / rendition.name, theirs / rendition.name):
            scores.append(
                vmaf.score(
                    folder / "playlist.m3u8",
                    source,
                    plan,
                    every=bench.effort.video.vmaf_every,
                    log=bench.folder / "vmaf.json",
                )
            )
            rates.append(rivals.bitrate(folder, plan) / 1e6)
        shown = f"{rendition.name}: {scores[0]:.2f} : {scores[1]:.2f}"
        findings.append(
            judged(
                _QUALITY,
                "≥ B − 0.5",
                f"{shown} = {scores[0] - scores[1]:+.2f} ({rates[0]:.2f} : {rates[1]:.2f} Mbit/s)",
                scores[0] >= scores[1] - 0.5,
                rendition=rendition.name,
                vmaf=scores,
                megabits=rates,
            )
        )
        bench.say(f"VMAF {shown}")
    return findings


def _memory(what: str, deliveries: list[Delivery]) -> Finding:
    peak = max(delivery.peak_bytes for delivery in deliveries) / _MEGABYTE
    return judged(
        _MEMORY,
        f"≤ {_MEMORY_LIMIT} MB",
        f"{peak:.0f} MB at most ({what})",
        peak <= _MEMORY_LIMIT,
        megabytes=peak,
    )


def _cpu(costs: list[Cost] | list[Delivery]) -> list[float]:
    return [cost.cpu for cost in costs]


def _wall(costs: list[Cost] | list[Delivery]) -> list[float]:
    return [cost.wall for cost in costs]


def _record(deliveries: list[Delivery]) -> list[dict[str, object]]:
    return [{**asdict(delivery), "folder": str(delivery.folder)} for delivery in deliveries]
