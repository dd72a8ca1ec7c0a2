"""Channels of Redis for subscribers outside: what they hear of workers, and that the queue never waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from pytest_django import Settings

from jobs import enqueue, fleet, lifecycle
from jobs.live import channels
from jobs.models import Job
from jobs.wakeup import redis_link
from tests.conftest import RunManage
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one, new_worker
from tests.support.servers.redis_channels import Subscriber
from tests.support.servers.redis_channels import _redis as _redis
from tests.support.servers.redis_server import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def subscriber(redis_server: RedisServer) -> Iterator[Subscriber]:
    subscriber = Subscriber(redis_server, "*worker_status*")
    yield subscriber
    subscriber.close()


@pytest.mark.parametrize("mode", ["redis", "hybrid"])
def test_subscribers_hear_of_every_change_of_a_worker(
    subscriber: Subscriber, mode: str, settings: Settings, admin_client: Client
) -> None:
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": mode}
    worker = new_worker()

    def hears(status: str) -> None:
        wait_until(lambda: status in subscriber.statuses(worker.pk)[-1:])

    fleet.heartbeat(worker, busy=False)
    hears("idle")
    job = enqueue("tests.noop")
    claim_one(worker)
    fleet.heartbeat(worker, busy=True)
    hears("busy")
    channel, body = subscriber.heard[-1]
    assert channel == "worker_status"
    assert body == {
        "worker_id": worker.pk,
        "worker_name": worker.name,
        "worker_type": "local",
        "status": "busy",
        "current_job_id": job.id,
        "current_job_ids": [job.id],
        "last_heartbeat": body["last_heartbeat"],
    }
    admin_client.post(f"/api/workers/{worker.pk}/disable")
    hears("disabled")
    admin_client.post(f"/api/workers/{worker.pk}/enable")
    hears("busy")
    fleet.say_goodbye(worker)
    hears("offline")


def test_a_worker_process_is_heard_coming_and_going(
    subscriber: Subscriber, redis_server: RedisServer, run_manage: RunManage
) -> None:
    enqueue("tests.noop")
    environment = {"REDIS_URL": redis_server.url, "JOBS_QUEUE_MODE": "redis"}
    run_manage("runworker", "--until-empty", "--name=one", env=environment)
    heard = [body["status"] for _, body in subscriber.listen() if body["worker_name"] == "one"]
    assert heard, "it came"
    assert heard[-1] == "offline", "its process waited for the last word to go out"


def test_sites_that_share_a_redis_can_keep_apart(redis_server: RedisServer, settings: Settings) -> None:
    settings.JOBS = {**settings.JOBS, "REDIS_CHANNEL_PREFIX": "tv:"}
    subscriber = Subscriber(redis_server, "*worker_status")
    fleet.heartbeat(new_worker(), busy=False)
    wait_until(subscriber.listen)
    assert {channel for channel, _ in subscriber.heard} == {"tv:worker_status"}
    subscriber.close()


def test_nothing_is_said_before_the_commit_and_nothing_after_a_rollback(subscriber: Subscriber) -> None:
    kept, undone = new_worker(), new_worker()
    with transaction.atomic():
        fleet.heartbeat(kept, busy=False)
        channels.flush()
        assert subscriber.listen() == []
    with transaction.atomic():
        fleet.heartbeat(undone, busy=False)
        transaction.set_rollback(True)
    wait_until(lambda: subscriber.statuses(kept.pk) == ["idle"])
    assert subscriber.statuses(undone.pk) == []


def test_many_changes_become_few_messages_and_the_last_state_is_heard(subscriber: Subscriber) -> None:
    worker = new_worker()
    began = time.monotonic()
    for number in range(100):
        fleet.heartbeat(worker, busy=number % 2 == 0)
    fleet.say_goodbye(worker)
    wait_until(lambda: subscriber.statuses(worker.pk)[-1:] == ["offline"])
    assert len(subscriber.heard) <= 2 + (time.monotonic() - began) / channels.PAUSE


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_redis_that_is_away_costs_the_queue_nothing_and_is_told_again_once_it_is_back(
    fault: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_link, "ANSWER_DUE", 0.2)
    redis_link.forget()
    getattr(redis_server, fault)()
    worker = new_worker()
    began = time.monotonic()
    for _ in range(50):
        fleet.heartbeat(worker, busy=False)
        job = enqueue("tests.noop")
        lifecycle.complete(claim_one(worker).lease)
    assert time.monotonic() - began < 50 * redis_link.ANSWER_DUE, "nobody waited for it"
    assert Job.objects.get(pk=job.id).status == "completed"
    redis_server.make_healthy()
    wait_until(lambda: redis_link.link().answers())
    subscriber = Subscriber(redis_server, "worker_status")
    wait_until(lambda: fleet.heartbeat(worker, busy=True) or subscriber.statuses(worker.pk), interval=0.1)
    subscriber.close()


def test_a_message_that_cannot_be_composed_harms_no_other(
    subscriber: Subscriber, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Any:
        raise ValueError("no")

    channels.publish_on_commit("broken", fail)
    worker = new_worker()
    fleet.heartbeat(worker, busy=False)
    wait_until(lambda: subscriber.statuses(worker.pk) == ["idle"])
    assert "message_dropped" in [getattr(record, "code", "") for record in caplog.records]


def test_without_redis_nothing_is_composed(subscriber: Subscriber, settings: Settings) -> None:
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": "database"}
    fleet.heartbeat(new_worker(), busy=False)
    channels.flush()
    assert subscriber.listen() == []
    assert "redis-channels" not in {thread.name for thread in threading.enumerate()}
