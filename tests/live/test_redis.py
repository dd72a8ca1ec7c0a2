"""Live pages over Redis pub/sub: told at once while it is there, by the database while it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from pytest_django import Settings

from jobs import enqueue, lifecycle
from jobs.live import broadcast, hints, sources
from jobs.live import hub as hub_module
from jobs.live.hub import hub
from jobs.live.mailbox import Mailbox
from jobs.live.topic import Topic
from jobs.models import Job
from jobs.wakeup import redis_link, streams
from tests.support.pages.live_pages import _hints_start_afresh as _hints_start_afresh
from tests.support.pages.live_pages import hub_threads
from tests.support.processes import wait_until
from tests.support.servers.redis_server import RedisServer, be_patient

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["redis", "hybrid"], autouse=True)
def mode(
    request: pytest.FixtureRequest,
    redis_server: RedisServer,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": request.param, "REDIS_URL": redis_server.url}
    be_patient(monkeypatch, 5)
    monkeypatch.setattr(hints, "COALESCE_SECONDS", 0)
    monkeypatch.setattr(hub_module, "LOOK_ANYWAY", 3600)
    monkeypatch.setattr(hub_module, "HINTS_KEPT_BACK", 0)
    return str(request.param)


class Page:
    """Shows which jobs there are, by status."""

    def __init__(self) -> None:
        topic = Topic("jobs", lambda: dict(Job.objects.values_list("pk", "status")), every=0.01)
        self.mailbox = Mailbox([topic], lambda: None)
        self._shown: dict[str, str] = {}
        hub.join(self.mailbox)
        self.shows()

    def shows(self) -> dict[str, str]:
        self._shown |= self.mailbox.take()[1]
        return self._shown

    def follows(self) -> bool:
        """A job is enqueued, then cancelled; both are seen."""
        job = enqueue("tests.noop")
        wait_until(lambda: self.shows().get(job.id) == '"pending"', timeout=30)
        lifecycle.cancel(job.id)
        return wait_until(lambda: self.shows().get(job.id) == '"cancelled"', timeout=30)


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page()
    yield page
    hub.leave(page.mailbox)
    wait_until(lambda: hub_threads() == 0)


def subscribers(server: RedisServer) -> int:
    ((_, count),) = server.client.pubsub_numsub(redis_link.key(streams.LIVE))
    return int(count)


def hear_only_redis(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the database for signs of a change."""
    patch.setattr(sources.CommitCounter, "INTERVAL", 3600)
    patch.setattr(sources, "POLL", 3600)


def test_pages_follow_what_redis_tells(
    redis_server: RedisServer, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until(lambda: subscribers(redis_server) == 1)
    hear_only_redis(monkeypatch)
    for _ in range(3):
        assert page.follows()


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_pages_follow_the_database_while_redis_is_away_and_redis_once_it_is_back(
    fault: str, redis_server: RedisServer, page: Page
) -> None:
    wait_until(lambda: subscribers(redis_server) == 1)
    assert page.follows()
    getattr(redis_server, fault)()
    for _ in range(2):
        assert page.follows()
    redis_server.make_healthy()
    wait_until(lambda: subscribers(redis_server) == 1)
    wait_until(lambda: redis_link.link().answers())
    with pytest.MonkeyPatch.context() as patch:
        hear_only_redis(patch)
        assert page.follows()


def test_pages_come_up_without_redis(redis_server: RedisServer) -> None:
    redis_server.kill()
    page = Page()
    try:
        assert page.follows()
    finally:
        hub.leave(page.mailbox)


def test_a_flush_disturbs_no_page(redis_server: RedisServer, page: Page) -> None:
    wait_until(lambda: subscribers(redis_server) == 1)
    redis_server.client.flushall()
    assert page.follows()


def test_when_the_last_page_is_gone_nobody_listens(redis_server: RedisServer) -> None:
    page = Page()
    wait_until(lambda: subscribers(redis_server) == 1)
    hub.leave(page.mailbox)
    wait_until(lambda: hub_threads() == 0)
    assert wait_until(lambda: subscribers(redis_server) == 0)


def test_a_subscriber_that_was_silenced_does_not_ring() -> None:
    rings = []
    subscriber = broadcast.Subscriber(lambda: rings.append(1))
    subscriber.silence()
    subscriber._news()
    assert rings == []


def test_sources_by_mode(mode: str, settings: Settings) -> None:
    source = sources.make_source()
    assert isinstance(source, broadcast.Broadcast)
    kinds = (type(source._beside), type(source._without))
    if connection.vendor == "sqlite":
        assert kinds == (sources.CommitCounter, sources.CommitCounter)
    elif mode == "hybrid":
        assert kinds == (sources.Notifications, sources.Notifications)
    else:
        assert kinds == (sources.RunningJobs, sources.Clock)
    settings.JOBS = {**settings.JOBS, "SESSION_FEATURES": False}
    pooled = sources.make_source()
    assert isinstance(pooled, broadcast.Broadcast)
    if connection.vendor == "postgresql":
        assert isinstance(pooled._without, sources.Clock)
