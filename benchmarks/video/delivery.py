"""One video on its way through the pipeline, with real workers, from the call of accept() to ready: what it cost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.contender import Contender
from benchmarks.driver import Driver
from benchmarks.processes import Workers
from benchmarks.video import family

PIPELINE = Contender("Sprocket", "benchmarks.video_site.pipeline", "postgresql")
TWO_WORKERS = PIPELINE.given(workers=2, concurrency=1)
ONE_WORKER = PIPELINE.given(workers=1)

_PATIENCE = 1800
_START_UP = 60
_SETTLE = 1.0


@dataclass(frozen=True)
class Delivery:
    video: str
    folder: Path
    wall: float
    """From the call of accept() until the video was seen to be ready."""
    cpu: float
    """Of the call of accept(), the workers, and all their ffmpeg processes, dead or alive."""
    upload_cpu: float
    """Of it, the call of accept()."""
    worker_cpu: float
    """Of it, the workers themselves (a killed one is left out); the rest is ffmpeg."""
    database_cpu: float
    """Of PostgreSQL meanwhile; no part of `cpu`."""
    peak_bytes: int
    """The most memory that a worker process itself has held since it was started."""
    encodes: dict[str, int]
    """How the runs of chunks have ended."""


@contextmanager
def working(bench: Bench, contender: Contender) -> Iterator[tuple[Driver, Workers]]:
    """An empty site whose workers have nothing to do yet."""
    with bench.driver(contender) as driver:
        driver.prepare()
        bench.settle(contender)
        with bench.workers(contender, driver) as workers:
            deadline = time.monotonic() + _START_UP
            while driver.extra("online") < len(workers.pids):
                workers.check_alive()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the workers were not ready within {_START_UP} s")
                time.sleep(0.1)
            time.sleep(_SETTLE)
            yield driver, workers


def deliver(
    bench: Bench, driver: Driver, workers: Workers, source: Path, *, kill_at: float | None = None
) -> Delivery:
    """Upload and wait. With `kill_at`, one worker is killed (SIGKILL) at so many percent of a chunk."""
    cpu, database_cpu = _cpu(workers), family.cpu_seconds(bench.postgres.pid)
    own = {pid: family.own_seconds(pid) for pid in _alive(workers)}
    upload = driver.extra("upload", str(source))
    if kill_at is not None:
        os.kill(driver.extra("find_victim", kill_at, _PATIENCE), signal.SIGKILL)
    ready = driver.extra("wait_until_ready", upload["video"], _PATIENCE)
    alive = _alive(workers)
    return Delivery(
        video=upload["video"],
        folder=Path(driver.extra("folder", upload["video"])),
        wall=ready - upload["began"],
        cpu=_cpu(workers) - cpu + upload["cpu"],
        upload_cpu=upload["cpu"],
        worker_cpu=sum(family.own_seconds(pid) - own.get(pid, 0) for pid in alive),
        database_cpu=family.cpu_seconds(bench.postgres.pid) - database_cpu,
        peak_bytes=max(family.peak_resident(pid) for pid in alive),
        encodes=driver.extra("encodes"),
    )


def _cpu(workers: Workers) -> float:
    return sum(family.cpu_seconds(adopter) for adopter in workers.pids)


def _alive(workers: Workers) -> list[int]:
    return [worker for adopter in workers.pids for worker in family.children(adopter)]
