"""The hub: one thread and one connection for all live pages of a process; nothing is left when they are gone."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connection, connections
from django.utils.html import format_html
from pytest_django import Settings

from jobs import database, enqueue, enqueue_many, lifecycle, live
from jobs.lifecycle import FailureReport, ProgressReport
from jobs.live import hints, streaming
from jobs.live import hub as hub_module
from jobs.live.hub import hub
from jobs.live.mailbox import Mailbox
from jobs.live.topic import Topic
from jobs.models import Job
from tests.support.pages.live_pages import _hints_start_afresh as _hints_start_afresh
from tests.support.pages.live_pages import connect as connect
from tests.support.pages.live_pages import forget_pages, hub_threads, topic_of
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one
from tests.support.servers.postgres_server import PostgresServer
from tests.support.servers.sse import Connect

pytestmark = pytest.mark.django_db(transaction=True)


def test_many_pages_cost_one_thread_and_one_reading() -> None:
    readings = []

    def read() -> dict[str, int]:
        readings.append(threading.current_thread().name)
        return {"count": len(readings) // 1000}

    topic = Topic("counted", read, every=0.05)
    mailboxes = [Mailbox([topic], lambda: None) for _ in range(200)]
    for mailbox in mailboxes:
        hub.join(mailbox)
    try:
        wait_until(lambda: all(mailbox.take()[0] for mailbox in mailboxes))
        assert set(readings) == {"live-hub"}
        assert len(readings) < 20
        assert hub_threads() == 1
    finally:
        for mailbox in mailboxes:
            hub.leave(mailbox)
    wait_until(lambda: hub_threads() == 0)
    assert not hub.is_running


def test_a_page_is_never_told_what_was_read_before_it_was_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows something newer already, and would step back for a moment."""
    monkeypatch.setattr(hub_module, "LOOK_ANYWAY", 3600)
    switch = {"is_paused": False}
    topic = Topic("switch", lambda: dict(switch), every=3600)
    earlier, later = Mailbox([topic], lambda: None), None
    hub.join(earlier)
    try:
        assert wait_until(lambda: earlier.take()[1]) == {"is_paused": "false"}
        switch["is_paused"] = True
        later = Mailbox([topic], lambda: None)
        hub.join(later)
        assert wait_until(lambda: later.take()[1]) == {"is_paused": "true"}
        assert wait_until(lambda: earlier.take()[1]) == {"is_paused": "true"}
    finally:
        for mailbox in filter(None, (earlier, later)):
            hub.leave(mailbox)
    wait_until(lambda: hub_threads() == 0)


def test_the_hub_uses_one_database_connection_and_gives_it_back(connect: Connect) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no list of its connections")

    def others() -> int:
        return int(
            database.fetch(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )[0][0]
        )

    job = enqueue("tests.noop")
    before = others()
    streams = [connect(f"?job={job.id}") for _ in range(10)]
    wait_until(lambda: all(stream.state for stream in streams))
    wait_until(lambda: others() == before + 1)
    for stream in streams:
        stream.close()
    wait_until(lambda: not hub.pages or forget_pages())
    assert wait_until(lambda: others() == before)


def test_a_page_that_vanishes_is_forgotten_at_the_next_event(connect: Connect) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    stream = connect(f"?job={job.id}")
    wait_until(lambda: stream.state)
    assert hub.pages == 1
    stream.close()
    percents = iter(range(1, 1000))

    def forgotten() -> bool:
        lifecycle.report_progress([ProgressReport(lease, next(percents) % 100)])
        return hub.pages == 0

    wait_until(forgotten, interval=0.2)


def test_a_page_that_vanishes_is_forgotten_at_the_next_heartbeat(
    connect: Connect, settings: Settings
) -> None:
    settings.JOBS = {**settings.JOBS, "LIVE_HEARTBEAT": "200ms", "LIVE_RECONNECT": "1500ms"}
    job = enqueue("tests.noop")
    stream = connect(f"?job={job.id}")
    wait_until(lambda: stream.raw.count(": heartbeat\n") >= 2)
    assert stream.raw.startswith("retry: 1500\n\n")
    stream.close()
    assert wait_until(lambda: hub.pages == 0)


def test_a_page_whose_server_never_asks_is_forgotten_too(settings: Settings) -> None:
    settings.JOBS = {**settings.JOBS, "LIVE_HEARTBEAT": "50ms"}
    mailbox = Mailbox([topic_of({})], lambda: None)
    hub.join(mailbox)
    wait_until(lambda: hub.pages == 0)
    assert mailbox.is_closed


def test_a_stream_ends_after_a_while_so_that_permissions_are_checked_anew(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LONGEST", 0.5)
    stream = connect(f"?job={enqueue('tests.noop').id}")
    wait_until(lambda: stream.ended)
    assert hub.pages == 0


def test_no_more_pages_than_allowed_and_the_rest_is_told_so(connect: Connect, settings: Settings) -> None:
    settings.JOBS = {"LIVE_CONNECTIONS": 2}
    job = enqueue("tests.noop")
    streams = [connect(f"?job={job.id}") for _ in range(2)]
    third = connect(f"?job={job.id}")
    assert (third.status, third.body()["error"]) == (503, "too_many_live_pages")
    assert third.response.headers["Retry-After"]
    assert connect(f"?job={job.id}", Accept="application/json").status == 200
    hub.leave(next(iter(hub._mailboxes)))
    wait_until(lambda: any(stream.ended for stream in streams))
    assert connect(f"?job={job.id}").status == 200


def test_a_topic_that_cannot_be_read_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> dict[str, Any]:
        raise ValueError("no")

    mailbox = Mailbox([Topic("broken", fail), topic_of({"a": 1})], lambda: None)
    hub.join(mailbox)
    try:
        wait_until(lambda: mailbox.take()[1] == {"a": "1"})
        unreadable = {
            record.__dict__["topic"]
            for record in caplog.records
            if record.__dict__.get("code") == "topic_unreadable"
        }
        assert unreadable == {"broken"}
    finally:
        hub.leave(mailbox)


def test_html_is_marked_and_what_is_gone_becomes_null() -> None:
    values: dict[str, Any] = {"html": format_html("<i>{}</i>", "<b>"), "text": "<b>"}
    seen: dict[str, str] = {}
    mailbox = Mailbox([topic_of(values)], lambda: None)

    def look() -> dict[str, str]:
        seen.update(mailbox.take()[1])
        return seen

    hub.join(mailbox)
    try:
        wait_until(look)
        assert seen == {"html": '{"html": "<i>&lt;b&gt;</i>"}', "text": '"<b>"'}
        del values["text"]
        live.hint_on_commit()
        wait_until(lambda: look()["text"] == "null")
    finally:
        hub.leave(mailbox)


def test_the_hub_survives_a_restart_of_the_database(postgres_server: PostgresServer) -> None:
    read: list[int] = []

    def count() -> dict[str, int]:
        read.append(Job.objects.count())
        return {"count": read[-1]}

    mailbox = Mailbox([Topic("count", count, every=0.05)], lambda: None)
    hub.join(mailbox)
    try:
        wait_until(lambda: read)
        connections.close_all()
        postgres_server.restart()
        enqueue("tests.noop")
        wait_until(lambda: read[-1] == 1)
        assert hub_threads() == 1
    finally:
        hub.leave(mailbox)
    wait_until(lambda: hub_threads() == 0)


def test_a_process_sends_few_hints_however_many_jobs_it_ends() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite tells by itself")
    sent: list[str] = []
    enqueue_many("tests.noop", [{}] * 50)

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql == f"NOTIFY {hints.CHANNEL}":
            sent.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(count):
        began = time.monotonic()
        for _ in range(50):
            lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no", permanent=True))
        took = time.monotonic() - began
    assert 1 <= len(sent) <= 1 + took / hints.COALESCE_SECONDS
