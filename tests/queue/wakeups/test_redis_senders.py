"""Whoever enqueues does not wait for Redis: not for a dead one, not for a hung one, not for a slow one."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connection, transaction
from django.test import Client
from pytest_django import Settings

from jobs import enqueue, wakeup
from jobs.conf import find_problems
from jobs.exceptions import RedisMissing
from jobs.models import Job
from jobs.wakeup import fuse, redis_link, streams
from tests.conftest import RunManage
from tests.support.processes import free_port, wait_until
from tests.support.servers.redis_server import RedisServer, programs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _redis(redis_server: RedisServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": "redis", "REDIS_URL": redis_server.url}
    monkeypatch.setattr(wakeup, "COALESCE_SECONDS", 0)


def told() -> bool:
    """Whether anybody is let through to Redis now."""
    calls: list[Any] = []
    redis_link.link().tell(calls.append)
    return bool(calls)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_after_the_first_failure_nobody_tries_until_it_answers_again(
    fault: str, redis_server: RedisServer
) -> None:
    enqueue("tests.noop")
    getattr(redis_server, fault)()
    enqueue("tests.noop")
    assert not told()
    began = time.monotonic()
    for _ in range(200):
        enqueue("tests.noop")
    assert time.monotonic() - began < 100 * redis_link.ANSWER_DUE, "they did not wait for answers"
    assert Job.objects.count() == 202
    redis_server.make_healthy()
    wait_until(told)
    enqueue("tests.noop")
    assert redis_server.client.xlen(streams.stream("normal")) == 1
    wait_until(lambda: "redis-probe" not in {thread.name for thread in threading.enumerate()})


def test_over_tcp_with_a_password_and_a_database_of_its_own(settings: Settings) -> None:
    server = RedisServer(programs()[0], port=free_port(), password="hunter2")
    try:
        settings.JOBS = {**settings.JOBS, "REDIS_URL": f"{server.url}?socket_timeout=60"}
        redis_link.demand()
        enqueue("tests.noop")
        assert server.client.xlen(streams.stream("normal")) == 1
        server.pause()
        began = time.monotonic()
        assert not redis_link.link().answers()
        assert time.monotonic() - began < 30, "whatever the address says"
        server.resume()
        wait_until(told)
        server.kill()
        with pytest.raises(RedisMissing, match=r"127\.0\.0\.1:\d+") as refusal:
            redis_link.demand()
        assert "hunter2" not in str(refusal.value)
    finally:
        server.close()


def test_no_transaction_is_open_while_redis_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    open_then = []

    def publish(lane: str) -> bool:
        open_then.append(connection.in_atomic_block)
        return True

    monkeypatch.setattr(streams, "publish", publish)
    with transaction.atomic():
        enqueue("tests.noop")
    enqueue("tests.noop")
    assert open_then == [False, False]


def test_a_redis_that_sleeps_is_left_alone_and_comes_back(redis_server: RedisServer) -> None:
    """DEBUG SLEEP: it hangs by itself, and answers what it was asked meanwhile in the end."""
    sleeper = threading.Thread(target=redis_server.client.execute_command, args=["DEBUG", "SLEEP", "1.5"])
    sleeper.start()
    wait_until(lambda: not enqueue_is_told(redis_server), interval=0.01)
    sleeper.join()
    wait_until(told)


def enqueue_is_told(redis_server: RedisServer) -> bool:
    enqueue("tests.noop")
    return told()


def test_a_redis_that_is_always_slow_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_link, "SLOW", -1.0)
    results = [streams.publish("normal") for _ in range(fuse.STRIKES + 2)]
    assert results == [True] * fuse.STRIKES + [False] * 2
    monkeypatch.undo()
    wait_until(told)


def test_a_redis_that_has_just_come_back_is_not_relied_upon(
    redis_server: RedisServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers come back to it some seconds later than whoever enqueues."""
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": "hybrid"}
    by_the_database: list[str] = []
    monkeypatch.setattr(wakeup, "_notify", lambda: by_the_database.append("hint"))
    enqueue("tests.noop")
    assert len(by_the_database) == 0
    redis_server.kill()
    enqueue("tests.noop")
    assert len(by_the_database) == 1
    redis_server.make_healthy()
    wait_until(told)
    enqueue("tests.noop")
    assert redis_server.client.xlen(streams.stream("normal")) == 1
    assert len(by_the_database) == 2
    monkeypatch.setattr(redis_link, "RECONNECT_CAP", -redis_link.ANSWER_DUE)  # they have had the time
    enqueue("tests.noop")
    assert redis_server.client.xlen(streams.stream("normal")) == 2
    assert len(by_the_database) == 2


def test_in_a_forked_process_a_blown_fuse_mends_too(redis_server: RedisServer) -> None:
    """Threads do not survive a fork. As if: the probe is gone, the fuse still blown."""
    link = redis_link.link()
    link._fuse.failed(time.monotonic())
    assert link._probe is None
    assert not told()
    wait_until(told)


def test_health_tells_of_redis(redis_server: RedisServer) -> None:
    client = Client()
    answer = client.get("/health").json()
    assert (answer["status"], answer["redis"]) == ("ok", True)
    redis_server.kill()
    answer = client.get("/health")
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["redis"]) == ("degraded", False)
    (reason,) = answer.json()["reasons"]
    assert "Redis" in reason


@pytest.mark.parametrize(
    ("given", "setting", "code"),
    [
        ({"QUEUE_MODE": "rabbit"}, "QUEUE_MODE", "not_a_choice"),
        ({"QUEUE_MODE": "redis"}, "REDIS_URL", "redis_url_missing"),
        ({"QUEUE_MODE": "hybrid", "REDIS_URL": ""}, "REDIS_URL", "redis_url_missing"),
        ({"REDIS_URL": "http://:hunter2@redis"}, "REDIS_URL", "bad_scheme"),
        ({"QUEUE_MODE": "redis", "REDIS_URL": "redis://:hunter2@r:x"}, "REDIS_URL", "redis_url_unclear"),
        (
            {"QUEUE_MODE": "redis", "REDIS_URL": "redis://:hunter2@r/0?nonsense=1"},
            "REDIS_URL",
            "redis_url_unclear",
        ),
        ({"REDIS_POOL_SIZE": 0}, "REDIS_POOL_SIZE", "below_minimum"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    given: dict[str, Any], setting: str, code: str
) -> None:
    (found,) = find_problems(given)
    assert (found.setting, found.code) == (setting, code)
    assert "hunter2" not in found


def test_without_redis_py_its_modes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.conf.find_spec", lambda name: None)
    (found,) = find_problems({"QUEUE_MODE": "hybrid", "REDIS_URL": "redis://localhost"})
    assert found.code == "redis_py_missing"
    assert "pip install 'sprocket-queue[redis]'" in found


def test_an_address_that_nobody_uses_is_pointed_out(settings: Settings) -> None:
    settings.JOBS = {"REDIS_URL": "redis://localhost"}
    assert "jobs.W002" in {message.id for message in run_checks()}
    settings.JOBS = {"REDIS_URL": "redis://localhost", "QUEUE_MODE": "hybrid"}
    assert "jobs.W002" not in {message.id for message in run_checks()}


def test_the_project_takes_the_address_from_the_environment(
    run_manage: RunManage, redis_server: RedisServer
) -> None:
    environment = {"REDIS_URL": redis_server.url, "JOBS_QUEUE_MODE": "redis"}
    run_manage("enqueue", "tests.noop", env=environment)
    assert redis_server.client.xlen("jobs:wakeup:normal") == 1
