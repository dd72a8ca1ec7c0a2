"""Seed 001, Redis Integration: what announces jobs, and what tells pages and subscribers."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import conf, enqueue, fleet, lifecycle
from jobs.lifecycle import ProgressReport
from jobs.testing import run_due_jobs
from jobs.wakeup import redis_link, streams
from jobs.wakeup.fuse import Fuse
from tests.acceptance.asking import after_probe, claim_stage
from tests.conftest import RunManage, StartManage
from tests.support.pages.live_pages import _hints_start_afresh as _hints_start_afresh
from tests.support.pages.live_pages import connect as connect
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one, new_worker, stored
from tests.support.queue.workers import wait_for_status, wait_for_worker
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.sse import Connect
from tests.support.videos.video_site import accept, clip

pytestmark = pytest.mark.django_db


# -- Job Queue ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_mode_redis_does_not_start_without_redis(run_manage: RunManage, tmp_path: Path) -> None:
    """
    001 · Job Queue · “`redis`: Redis Streams required”
    """
    environment = {"JOBS_QUEUE_MODE": "redis", "REDIS_URL": f"unix://{tmp_path}/nothing"}
    done = run_manage("runworker", env=environment, check=False)
    assert (done.returncode, "QUEUE_MODE" in done.stderr) == (1, True)


@pytest.mark.django_db(transaction=True)
def test_mode_hybrid_prefers_redis_and_does_without_it(
    redis_server: RedisServer, settings: Settings, start_manage: StartManage
) -> None:
    """
    001 · Job Queue · “`hybrid`: Redis preferred, fallback to polling”
    001 · Job Queue · “Instant job dispatch (no polling delay)”
    001 · Job Queue · “Consumer groups for load balancing”
    001 · Job Queue · “At-least-once delivery guarantees”
    001 · Job Queue · “Automatic fallback to database polling”
    001 · Failure Recovery Tests · “Redis Failure: Test fallback to database polling”
    Decided: the database holds the jobs and messages are hints, so losing one, or all of Redis, loses time and never
    a job; and a job is claimed once, however often it is announced.
    """
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": "hybrid", "REDIS_URL": redis_server.url}
    environment = {"JOBS_QUEUE_MODE": "hybrid", "REDIS_URL": redis_server.url}
    wait_for_worker(start_manage("runworker", env=environment))
    stream = streams.stream("normal")
    wait_until(lambda: redis_server.client.exists(stream) and redis_server.client.xinfo_groups(stream))
    wait_for_status(enqueue("tests.noop"), "completed")
    redis_server.client.flushall()
    wait_for_status(enqueue("tests.noop"), "completed")
    redis_server.kill()
    wait_for_status(enqueue("tests.noop"), "completed")
    redis_server.make_healthy()
    wait_until(lambda: redis_link.link().answers())
    job = enqueue("tests.noop")
    wait_for_status(job, "completed")
    assert stored(job).attempt_number == 1


def test_a_redis_that_fails_is_left_alone_for_longer_each_time() -> None:
    """
    001 · Job Queue · “Circuit breaker pattern on Redis failures”
    001 · Job Queue · “Exponential backoff on consecutive errors”
    """
    fuse, now, pauses = Fuse(), 100.0, []
    for _ in range(6):
        fuse.failed(now)
        assert fuse.is_blown
        pauses.append(fuse.seconds_left(now))
        now += pauses[-1]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
    fuse.answered()
    assert (fuse.is_blown, fuse.seconds_left(now)) == (False, 0)


# -- Real-Time Updates -------------------------------------------------------------------------------------------------


@pytest.fixture
def heard(redis_server: RedisServer, settings: Settings) -> Any:
    """Everything that is published in Redis, as (channel, body); call it to listen."""
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": "redis", "REDIS_URL": redis_server.url}
    subscription = redis_server.client.pubsub(ignore_subscribe_messages=True)
    subscription.psubscribe("worker_status", "transcode_*")
    subscription.get_message(timeout=5)
    messages: list[tuple[str, Any]] = []

    def listen() -> list[tuple[str, Any]]:
        while (message := subscription.get_message(timeout=0.01)) is not None:
            messages.append((message["channel"].decode(), json.loads(message["data"])))
        return messages

    yield listen
    subscription.close()


@pytest.mark.django_db(transaction=True)
def test_outsiders_hear_of_workers_in_redis(heard: Any) -> None:
    """
    001 · Real-Time Updates · “`worker_status`: Worker online/offline/busy/idle”
    """
    worker = new_worker()

    def is_told(status: str) -> bool:
        told = [(channel, body["worker_id"], body["status"]) for channel, body in heard()]
        return ("worker_status", worker.pk, status) in told

    fleet.heartbeat(worker, busy=False)
    wait_until(lambda: is_told("idle"), timeout=20)
    fleet.say_goodbye(worker)
    wait_until(lambda: is_told("offline"), timeout=20)


@pytest.mark.django_db(transaction=True)
def test_outsiders_hear_of_the_progress_and_the_end_of_a_video_in_redis(
    heard: Any, videos_root: Path
) -> None:
    """
    001 · Real-Time Updates · “`transcode_progress:{video_id}`: Per-video progress updates”
    001 · Real-Time Updates · “`transcode_complete:{video_id}`: Completion notifications”
    001 · 3. Progress Updates · “Publish progress to Redis Pub/Sub for real-time UI updates”
    001 · 4. Job Completion · “Publish completion to Redis Pub/Sub”
    """
    video = accept(clip(50))
    after_probe()
    leases = claim_stage("videos.encode")
    lifecycle.report_progress([ProgressReport(lease, 50) for lease in leases])
    wait_until(lambda: f"transcode_progress:{video.pk}" in dict(heard()), timeout=20)
    lifecycle.release(leases)
    run_due_jobs()
    wait_until(lambda: f"transcode_complete:{video.pk}" in dict(heard()), timeout=20)


@pytest.mark.django_db(transaction=True)
def test_a_page_is_told_of_changes_by_server_sent_events(connect: Connect) -> None:
    """
    001 · Real-Time Updates · “Real-time admin UI updates (no polling)”
    001 · Real-Time Updates · “Server-Sent Events (SSE) to browser”
    """
    job = enqueue("tests.noop")
    stream = connect(f"?job={job.id}")
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    wait_until(lambda: stream.state.get(f"job.{job.id}.status") == "pending")
    claim_one()
    wait_until(lambda: stream.state[f"job.{job.id}.status"] == "processing")


@pytest.mark.django_db(transaction=True)
def test_a_page_that_was_cut_off_comes_back_to_the_present_state(connect: Connect) -> None:
    """
    001 · Real-Time Updates · “Automatic reconnection with exponential backoff”
    """
    job = enqueue("tests.noop")
    first = connect(f"?job={job.id}")
    wait_until(lambda: first.state)
    assert "retry: " in first.raw, "so the browser connects again"
    first.close()
    lifecycle.complete(claim_one().lease)
    again = connect(f"?job={job.id}", **{"Last-Event-ID": first.last_event_id})
    wait_until(lambda: again.state.get(f"job.{job.id}.status") == "completed")


@pytest.mark.django_db(transaction=True)
def test_heartbeat_and_reconnect_times_of_streams_are_settings(connect: Connect, settings: Settings) -> None:
    """
    001 · Real-Time Updates · “Heartbeat interval: 30 seconds (configurable)”
    001 · Real-Time Updates · “Reconnect timeout: 3 seconds (configurable)”
    """
    defaults = conf.current()
    assert defaults.live_heartbeat == timedelta(seconds=30)
    assert defaults.live_reconnect == timedelta(seconds=3)
    settings.JOBS = {**settings.JOBS, "LIVE_RECONNECT": "7s"}
    stream = connect(f"?job={enqueue('tests.noop').id}")
    wait_until(lambda: "retry: 7000\n" in stream.raw)
