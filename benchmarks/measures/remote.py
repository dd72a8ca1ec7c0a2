"""Remote workers beside local ones: the same video, the same claims; and what passes through costs the server."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench
from benchmarks.contender import SPROCKET
from benchmarks.findings import Finding, compare_rates, judged
from benchmarks.video import clips, family
from benchmarks.video.delivery import PIPELINE, deliver, working

_MEGABYTE = 1024 * 1024
_SERVER_LIMIT = 200
_WALL_FACTOR = 1.15
_CLAIM_SHARE = 0.3
_BATCH = 50
_CLAIMS = 10
_START_UP = 60
_PATIENCE = 600
_STOP_SECONDS = 2
LOCAL = PIPELINE.given(split="local")
FAR = PIPELINE.given(split="far")
"""One worker for encodes and sound, here or over HTTP; beside it a local one for all the rest."""


def same_video(bench: Bench) -> list[Finding]:
    effort = bench.effort.video
    source = clips.film(bench.folder, height=effort.height, seconds=effort.seconds)
    walls: dict[str, list[float]] = {"local": [], "far": []}
    for _ in range(effort.rounds):
        for name, contender in (("local", LOCAL), ("far", FAR)):
            with working(bench, contender) as (driver, workers):
                delivery = deliver(bench, driver, workers, source)
            walls[name].append(delivery.wall)
            bench.say(f"{name} worker: {delivery.wall:.1f} s")
    ratio = median(walls["far"]) / median(walls["local"])
    return [
        judged(
            "remote: wall of a video, on the same machine",
            f"≤ {_WALL_FACTOR:.2f} × a local worker",
            f"{median(walls['far']):.1f} s : {median(walls['local']):.1f} s = {ratio:.2f} ×",
            ratio <= _WALL_FACTOR,
            **walls,
        )
    ]


def cancelled(bench: Bench) -> list[Finding]:
    """From the moment when a chunk is cancelled until the ffmpeg that encodes it, over there, is gone."""
    effort = bench.effort.video
    source = clips.film(bench.folder, height=effort.height, seconds=effort.seconds)
    seconds: list[float] = []
    for _ in range(effort.rounds):
        with working(bench, FAR) as (driver, _workers):
            driver.extra("upload", str(source))
            seconds.append(float(driver.extra("cancel_far_chunk", 5, _PATIENCE)))
        bench.say(f"ffmpeg was gone after {seconds[-1]:.2f} s")
    return [
        judged(
            "remote: ffmpeg of a remote worker is gone after cancel",
            f"≤ {_STOP_SECONDS:g} s",
            f"{max(seconds):.2f} s at most, of {len(seconds)}",
            max(seconds) <= _STOP_SECONDS,
            seconds=seconds,
        )
    ]


def large_source(bench: Bench) -> list[Finding]:
    """Every byte of a large source goes down, every output comes up; the server holds none of them whole."""
    minutes = bench.effort.video.remote_minutes
    source = clips.long_film(bench.folder, minutes=minutes)
    size = source.stat().st_size
    with working(bench, FAR) as (driver, workers):
        delivery = deliver(bench, driver, workers, source)
        (server,) = family.children(workers.pids[0])
        peak = family.peak_resident(server) / _MEGABYTE
        outputs = _size(delivery.folder)
    bench.say(f"{size / 1e9:.2f} GB: ready after {delivery.wall:.1f} s")
    source.unlink()
    return [
        judged(
            "remote: memory of the web server",
            f"≤ {_SERVER_LIMIT} MB",
            f"{peak:.0f} MB at most ({size / 1e9:.2f} GB down, {outputs / 1e6:.0f} MB up)",
            peak <= _SERVER_LIMIT,
            megabytes=peak,
        )
    ]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def claims(bench: Bench) -> list[Finding]:
    """`claim` of 50 over HTTP beside the call itself, turn by turn on one table."""
    served = SPROCKET.at("far_claims").given(server=1)
    here: list[float] = []
    far: list[float] = []
    with bench.driver(served) as driver:
        driver.prepare()
        with bench.workers(served, driver) as server:
            deadline = time.monotonic() + _START_UP
            while not driver.extra("server_answers"):
                server.check_alive()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the web server did not answer within {_START_UP} s")
                time.sleep(0.1)
            for name in ("time_claims", "time_far_claims"):  # plans, caches and connections are warm
                driver.extra("top_up", _CLAIMS * _BATCH)
                driver.extra(name, _CLAIMS, _BATCH)
            for _ in range(bench.effort.rounds * 4):
                driver.extra("top_up", 2 * _CLAIMS * _BATCH)
                here.append(_CLAIMS * _BATCH / float(driver.extra("time_claims", _CLAIMS, _BATCH)))
                far.append(_CLAIMS * _BATCH / float(driver.extra("time_far_claims", _CLAIMS, _BATCH)))
    return [compare_rates("remote: claim of 50 over HTTP", far, "a local claim", here, factor=_CLAIM_SHARE)]
