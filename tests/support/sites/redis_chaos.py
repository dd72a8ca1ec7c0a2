"""Jobs while Redis is killed, flushed and paused at random: how long each waited, before, during and after."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jobs import enqueue
from jobs.models import Job
from jobs.wakeup import redis_link
from tests.support.processes import ManageProcess, wait_until
from tests.support.servers.redis_server import RedisServer


@dataclass(frozen=True)
class Phase:
    name: str
    job_ids: list[str]

    def waits(self) -> list[float]:
        """Seconds from enqueue to claim, job by job, by the database's clock."""
        rows = Job.objects.filter(pk__in=self.job_ids).values_list("run_at", "started_at")
        return sorted((started - due).total_seconds() for due, started in rows if started)

    @property
    def median(self) -> float:
        waits = self.waits()
        return waits[len(waits) // 2]

    def __str__(self) -> str:
        waits = self.waits()
        p50, p99 = (waits[int(len(waits) * share)] * 1000 for share in (0.5, 0.99))
        longest = waits[-1] * 1000
        return (
            f"{self.name:6}  {len(waits):5} jobs  p50 {p50:5.0f} ms  p99 {p99:5.0f} ms  max {longest:5.0f} ms"
        )


def live_through(
    server: RedisServer, jobs: int, chance: random.Random, workers: Sequence[ManageProcess]
) -> tuple[list[Phase], dict[str, int]]:
    """Enqueue one by one: a fifth in peace, three fifths among faults, a fifth in peace again. Also: the faults."""
    calm = jobs // 5
    before = Phase("before", _enqueue(calm, chance))
    with _faults(server, chance) as suffered:
        during = Phase("during", _enqueue(jobs - 2 * calm, chance))
    wait_until(lambda: redis_link.link().answers() and all(map(_listens, workers)))
    after = Phase("after", _enqueue(calm, chance))
    return [before, during, after], suffered


def _listens(worker: ManageProcess) -> bool:
    said = worker.read_output()
    return said.rfind("no word from Redis") <= said.rfind("announced by Redis again")


def _enqueue(count: int, chance: random.Random) -> list[str]:
    ids = []
    for _ in range(count):
        ids.append(enqueue("tests.noop", priority=chance.choice([0, 5, 10])).id)
        is_break = chance.random() < 0.03  # in which workers fall asleep
        time.sleep(chance.uniform(0.15, 0.4) if is_break else chance.uniform(0.0, 0.02))
    return ids


@contextmanager
def _faults(server: RedisServer, chance: random.Random) -> Iterator[dict[str, int]]:
    suffered = {"killed": 0, "flushed": 0, "paused": 0}
    over = threading.Event()

    def torment() -> None:
        while not over.wait(chance.uniform(0.05, 0.5)):
            fewest = min(suffered.values())
            fault = chance.choice([name for name, count in suffered.items() if count == fewest])
            suffered[fault] += 1
            if fault == "flushed":
                server.client.flushall()
            elif fault == "paused":
                server.pause()
                over.wait(chance.uniform(0.05, 3.0))
                server.resume()
            else:
                server.kill()
                over.wait(chance.uniform(0.05, 3.0))
                server.start()

    thread = threading.Thread(target=torment)
    thread.start()
    try:
        yield suffered
    finally:
        over.set()
        thread.join()
        server.make_healthy()
