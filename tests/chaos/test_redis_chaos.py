"""Whatever happens to Redis, each job is completed once. SPROCKET_CHAOS_JOBS=5000 takes a closer look."""

from __future__ import annotations

import os
import random

import pytest
from django.db.models import Count
from pytest_django import Settings

from jobs.models import Attempt, Job
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.queue.workers import wait_for_worker
from tests.support.servers.redis_server import RedisServer
from tests.support.sites.redis_chaos import live_through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

JOBS = int(os.environ.get("SPROCKET_CHAOS_JOBS", "300"))
POLLS_EVERY = 8.0


@pytest.mark.parametrize("mode", ["redis", "hybrid"])
def test_each_job_is_completed_once_while_redis_comes_and_goes(
    mode: str,
    redis_server: RedisServer,
    settings: Settings,
    start_manage: StartManage,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": mode, "REDIS_URL": redis_server.url}
    environment = {
        "JOBS_QUEUE_MODE": mode,
        "REDIS_URL": redis_server.url,
        "JOBS_TICK_INTERVAL": f"{POLLS_EVERY}s",
    }
    workers = [start_manage("runworker", env=environment) for _ in range(2)]
    for worker in workers:
        wait_for_worker(worker)
    seed = random.randrange(10**6)
    phases, suffered = live_through(redis_server, JOBS, random.Random(seed), workers)
    wait_until(lambda: Job.objects.filter(status="completed").count() == JOBS)
    with capsys.disabled():
        faults = ", ".join(f"{count} × {fault}" for fault, count in suffered.items())
        print(f"\n{mode}: Redis was {faults} (seed {seed})", *phases, sep="\n  ")  # noqa: T201
    assert Job.objects.count() == JOBS
    attempts = Attempt.objects.values("job").annotate(runs=Count("pk"))
    assert {row["runs"] for row in attempts} == {1}
    assert attempts.count() == JOBS
    assert all(worker.poll() is None for worker in workers)
    assert sum(suffered.values()) > 0
    before, _, after = phases
    assert before.median < POLLS_EVERY / 4, "woken, not found by polling"
    assert after.median < POLLS_EVERY / 4, "and again"
