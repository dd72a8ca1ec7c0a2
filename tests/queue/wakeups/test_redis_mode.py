"""Real workers that Redis wakes: with it, without it, after it came back. The database is the truth throughout."""

from __future__ import annotations

import pytest
from django.db import connection
from pytest_django import Settings

from jobs import enqueue, wakeup
from jobs.models import Attempt
from jobs.wakeup import redis_link, streams
from tests.conftest import RunManage, StartManage
from tests.queue.wakeups.test_wakeups import DEAF, DROWSY, fall_asleep
from tests.support.processes import ManageProcess, wait_until
from tests.support.queue.workers import wait_for_status, wait_for_worker
from tests.support.servers.redis_server import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)

Fault = str


@pytest.fixture(params=["redis", "hybrid"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def use(settings: Settings, server: RedisServer, mode: str) -> dict[str, str]:
    """In this process; the answer is what a worker needs to do the same."""
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": mode, "REDIS_URL": server.url}
    return {"JOBS_QUEUE_MODE": mode, "REDIS_URL": server.url}


def sleeping(start_manage: StartManage, **environment: str) -> ManageProcess:
    """A worker that has found nothing to do and sleeps."""
    process = start_manage("runworker", env=environment)
    wait_for_worker(process)
    wait_until(lambda: "is ready" in process.read_output())
    fall_asleep()
    return process


def someone_reads(server: RedisServer) -> bool:
    name = streams.stream("normal")
    if not server.client.exists(name):
        return False
    groups = server.client.xinfo_groups(name)
    return any(server.client.xinfo_consumers(name, group["name"]) for group in groups)


def runs_of_one(timeout: float = 30) -> int:
    """How often a job has run that is completed now."""
    job = enqueue("tests.noop")
    wait_for_status(job, "completed", timeout=timeout)
    return int(Attempt.objects.filter(job_id=job.id).count())


def test_a_sleeping_worker_is_woken_by_redis(
    mode: str, redis_server: RedisServer, settings: Settings, start_manage: StartManage
) -> None:
    environment = use(settings, redis_server, mode)
    sleeping(start_manage, **environment, **DROWSY, **DEAF)  # it has no other ear
    wait_until(lambda: someone_reads(redis_server))
    for _ in range(3):
        assert runs_of_one() == 1
        fall_asleep()


@pytest.mark.parametrize("starts_python", [True])
def test_mode_redis_refuses_to_start_without_redis_in_one_clear_line(
    redis_server: RedisServer, settings: Settings, run_manage: RunManage
) -> None:
    environment = use(settings, redis_server, "redis")
    redis_server.kill()
    for arguments in (["runworker"], ["runworker", "--processes", "2"]):
        done = run_manage(*arguments, env=environment, check=False)
        assert done.returncode == 1
        assert done.stdout == ""
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith("CommandError: ")
        assert "JOBS['QUEUE_MODE']" in line
        assert "'hybrid'" in line


def test_mode_hybrid_starts_without_redis_and_wakes_workers_by_the_database(
    redis_server: RedisServer, settings: Settings, start_manage: StartManage
) -> None:
    environment = use(settings, redis_server, "hybrid")
    redis_server.kill()
    sleeping(start_manage, **environment, **DROWSY)
    for _ in range(3):
        assert runs_of_one() == 1
        fall_asleep()


@pytest.mark.parametrize("fault", ["kill", "pause", "flush"])
def test_losing_redis_loses_time_never_a_job(
    fault: str, mode: str, redis_server: RedisServer, settings: Settings, start_manage: StartManage
) -> None:
    """While it is away by the database (hybrid) or by polling (redis); once it is back by Redis again."""
    environment = use(settings, redis_server, mode)
    polls = {"JOBS_TICK_INTERVAL": "300ms"} if mode == "redis" else DROWSY
    sleeping(start_manage, **environment, **polls)
    assert runs_of_one() == 1
    if fault == "kill":
        redis_server.kill()
    elif fault == "pause":
        redis_server.pause()
    else:
        redis_server.client.flushall()
    for _ in range(3):
        assert runs_of_one() == 1
    redis_server.make_healthy()
    wait_until(lambda: someone_reads(redis_server))
    wait_until(lambda: redis_link.link().answers())
    assert runs_of_one() == 1


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_worker_that_only_redis_can_wake_hears_again(
    fault: str, redis_server: RedisServer, settings: Settings, start_manage: StartManage
) -> None:
    environment = use(settings, redis_server, "redis")
    worker = sleeping(start_manage, **environment, **DROWSY, **DEAF)
    wait_until(lambda: someone_reads(redis_server))
    getattr(redis_server, fault)()
    wait_until(lambda: "no word from Redis" in worker.read_output())
    redis_server.make_healthy()
    wait_until(lambda: "announced by Redis again" in worker.read_output())
    fall_asleep()
    assert runs_of_one() == 1


def test_a_worker_behind_a_pooler_is_woken_by_redis_too(
    redis_server: RedisServer, settings: Settings, start_manage: StartManage
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL has poolers in front")
    settings.JOBS = {**settings.JOBS, "SESSION_FEATURES": False}
    environment = use(settings, redis_server, "redis")
    sleeping(start_manage, **environment, **DROWSY, **DEAF)
    wait_until(lambda: someone_reads(redis_server))
    assert runs_of_one() == 1


def test_a_burst_wakes_the_whole_crew(
    redis_server: RedisServer, settings: Settings, start_manage: StartManage, log: str, gate: object
) -> None:
    """One hint for many jobs: whoever is full passes it on."""
    from jobs import enqueue_many
    from jobs.models import Job

    environment = use(settings, redis_server, "redis")
    for _ in range(3):
        process = start_manage("runworker", "--concurrency", "1", env={**environment, **DROWSY, **DEAF})
        wait_for_worker(process)
    wait_until(lambda: someone_reads(redis_server))
    fall_asleep()
    wakeup._last_sent.clear()
    enqueue_many("work.hold", [{"log": log, "gate": str(gate)}] * 3)
    wait_until(lambda: Job.objects.filter(status="processing").values("worker").distinct().count() == 3)
    assert Job.objects.filter(status="pending").count() == 0
