"""Live pages: streams over a real server, one hub for all of them, and nothing left behind when they are gone."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import Permission, User
from django.core.asgi import get_asgi_application
from django.db import connection, connections
from django.test import Client
from django.utils.html import format_html
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from jobs import database, enqueue, enqueue_many, lifecycle, live, workflow
from jobs.lifecycle import FailureReport, ProgressReport
from jobs.live import hints, streaming
from jobs.live import hub as hub_module
from jobs.live.hub import hub
from jobs.live.mailbox import Mailbox
from jobs.live.topic import Topic
from jobs.models import Job
from tests.actors import claim_one
from tests.conftest import StartManage
from tests.postgres_server import PostgresServer
from tests.sse import Connect, EventStream
from tests.support import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _hints_start_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_last_sent", float("-inf"))


@pytest.fixture
def connect(live_server: LiveServer) -> Iterator[Connect]:
    """`connect("?job=…")` opens a stream of this process's own server, as `user` or as one who may do everything."""
    opened: list[EventStream] = []

    def connect(query: str, *, user: User | None = None, **headers: str) -> EventStream:
        stream = EventStream(f"{live_server.url}/api/events/{query}", cookie=cookie_of(user), headers=headers)
        opened.append(stream)
        return stream

    yield connect
    for stream in opened:
        stream.close()
    wait_until(lambda: not hub.pages or _nudge())
    wait_until(lambda: "live-hub" not in {thread.name for thread in threading.enumerate()})


def _nudge() -> bool:
    """A server notices that a page is gone when it writes to it: close what is left, as its next write would."""
    for mailbox in list(hub._mailboxes):
        hub.leave(mailbox)
    return False


def cookie_of(user: User | None = None) -> str:
    client = Client()
    client.force_login(user or somebody("chief", superuser=True))
    return f"sessionid={client.cookies['sessionid'].value}"


def somebody(name: str, *permissions: str, staff: bool = True, superuser: bool = False) -> User:
    user, _ = User.objects.get_or_create(username=name, is_staff=staff, is_superuser=superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def topic_of(values: dict[str, Any], name: str = "here") -> Topic:
    return Topic(name, lambda: dict(values), every=0.05)


# -- what a page gets ------------------------------------------------------------------------------------------------


def test_a_page_gets_the_state_and_then_what_changes(connect: Connect) -> None:
    job = enqueue("tests.noop")
    stream = connect(f"?job={job.id}")
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    assert stream.response.headers["X-Accel-Buffering"] == "no"
    wait_until(lambda: stream.state.get(f"job.{job.id}.status") == "pending")
    lease = claim_one().lease
    wait_until(lambda: stream.state[f"job.{job.id}.status"] == "processing")
    lifecycle.report_progress([ProgressReport(lease, 40, "<b>half</b> way")])
    wait_until(lambda: stream.state[f"job.{job.id}.percent"] == 40)
    assert stream.state[f"job.{job.id}.step"] == "<b>half</b> way", "a text, not HTML"
    assert set(stream.events[-1][1]) <= {f"job.{job.id}.{key}" for key in ("percent", "step", "eta")}
    lifecycle.complete(lease)
    wait_until(lambda: stream.state[f"job.{job.id}.status"] == "completed")
    assert "retry: " in stream.raw


def test_a_workflow_is_followed_as_a_whole(connect: Connect) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    stream = connect(f"?workflow={first.workflow_id}")
    wait_until(lambda: stream.state.get(f"job.{second.id}.status") == "waiting")
    lifecycle.complete(claim_one().lease)
    wait_until(lambda: stream.state[f"job.{first.id}.status"] == "completed")
    wait_until(lambda: stream.state[f"job.{second.id}.status"] == "pending")


def test_progress_reaches_the_page_soon(connect: Connect) -> None:
    """The best of several: a busy machine is no defect, a page that looks only now and then is."""
    job = enqueue("tests.noop")
    lease = claim_one().lease
    stream = connect(f"?job={job.id}")
    wait_until(lambda: stream.state)
    delays = []
    for percent in (10, 20, 30, 40, 50):
        lifecycle.report_progress([ProgressReport(lease, percent)])
        began = time.monotonic()
        wait_until(lambda p=percent: stream.state[f"job.{job.id}.percent"] == p, interval=0.01)  # type: ignore[misc]
        delays.append(time.monotonic() - began)
    assert min(delays) < 1, delays


def test_many_changes_become_few_events(connect: Connect) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    stream = connect(f"?job={job.id}")
    wait_until(lambda: stream.state)
    began = time.monotonic()
    for percent in range(1, 100):
        lifecycle.report_progress([ProgressReport(lease, percent)])
    wait_until(lambda: stream.state[f"job.{job.id}.percent"] == 99)
    took = time.monotonic() - began
    assert len(stream.events) <= 3 + took / 0.5


def test_after_a_lost_connection_the_page_has_the_present_state(connect: Connect) -> None:
    job = enqueue("tests.noop")
    first = connect(f"?job={job.id}")
    wait_until(lambda: first.state)
    first.close()
    lifecycle.complete(claim_one().lease)
    again = connect(f"?job={job.id}", **{"Last-Event-ID": first.last_event_id})
    wait_until(lambda: again.state.get(f"job.{job.id}.status") == "completed")


def test_who_has_the_present_state_is_not_sent_it_again(connect: Connect) -> None:
    job, other = enqueue("tests.noop"), enqueue("tests.noop")
    first = connect(f"?job={job.id}")
    wait_until(lambda: first.state)
    again = connect(f"?job={job.id}", **{"Last-Event-ID": first.last_event_id})
    by_address = connect(f"?job={job.id}&last_event_id={first.last_event_id}")
    lifecycle.cancel([job.id])
    for stream in (again, by_address):
        wait_until(lambda s=stream: s.state)  # type: ignore[misc]
        assert stream.events[0][1] == {f"job.{job.id}.status": "cancelled"}
    assert other.id not in again.raw


def test_json_is_the_present_state_for_who_cannot_have_a_stream(connect: Connect) -> None:
    job = enqueue("tests.noop")
    answer = connect(f"?job={job.id}", Accept="application/json")
    assert answer.status == 200
    assert answer.body()[f"job.{job.id}.status"] == "pending"
    assert hub.pages == 0


def test_a_job_that_does_not_exist_is_no_error(connect: Connect) -> None:
    assert connect("?job=01ARZ3NDEKTSV4RRFFQ69G5FAV", Accept="application/json").body() == {}


@pytest.mark.parametrize("query", ["", "?job=", "?job=1", "?job=%3Cscript%3E", "?workflow=" + "x" * 26])
def test_what_is_no_topic_is_refused(connect: Connect, query: str) -> None:
    answer = connect(query)
    assert (answer.status, answer.body()["error"]) == (400, "bad_topic")


def test_too_many_jobs_are_refused(connect: Connect) -> None:
    ids = enqueue_many("tests.noop", [{}] * 101)
    assert connect("?" + "&".join(f"job={id}" for id in ids)).status == 400


def test_nobody_collects_events_to_compress_them(settings: Settings) -> None:
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(somebody("chief", superuser=True))
    job = enqueue("tests.noop")
    answer: Any = client.get(f"/api/events/?job={job.id}")
    try:
        assert next(iter(answer.streaming_content)).startswith(b"retry: ")
    finally:
        answer.close()
    assert hub.pages == 0


# -- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "staff", "status"),
    [([], True, 403), (["view_worker"], True, 403), (["view_job"], True, 200), (["view_job"], False, 401)],
)
def test_only_staff_who_may_see_jobs_are_told(
    connect: Connect, permissions: list[str], staff: bool, status: int
) -> None:
    job = enqueue("tests.noop")
    user = somebody("clerk", *permissions, staff=staff)
    assert connect(f"?job={job.id}", user=user).status == status
    assert connect(f"?job={job.id}", user=user, Accept="application/json").status == status


def test_strangers_are_told_nothing(live_server: LiveServer) -> None:
    job = enqueue("tests.noop")
    answer = EventStream(f"{live_server.url}/api/events/?job={job.id}")
    assert (answer.status, answer.body()["error"]) == (401, "not_signed_in")


def test_a_stream_is_only_read(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    assert admin_client.post(f"/api/events/?job={job.id}").status_code == 405


# -- one hub for all ---------------------------------------------------------------------------------------------------


def hub_threads() -> int:
    return [thread.name for thread in threading.enumerate()].count("live-hub")


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
    wait_until(lambda: not hub.pages or _nudge())
    wait_until(lambda: others() == before)


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
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "HEARTBEAT", 0.2)
    job = enqueue("tests.noop")
    stream = connect(f"?job={job.id}")
    wait_until(lambda: stream.raw.count(": heartbeat\n") >= 2)
    stream.close()
    wait_until(lambda: hub.pages == 0)


def test_a_page_whose_server_never_asks_is_forgotten_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "ABANDONED", 0.1)
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
        assert "the live topic broken cannot be read" in caplog.text
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


# -- a real server, other processes ------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_several_pages_of_a_server_process_follow_a_worker_process(
    start_manage: StartManage, gate: Any
) -> None:
    port = free_port()
    server = start_manage(
        "runserver", "--noreload", f"127.0.0.1:{port}", env={"ALLOWED_HOSTS": "127.0.0.1", "DEBUG": "true"}
    )

    def answers() -> bool:
        assert server.poll() is None, server.read_output()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(answers)
    address = f"http://127.0.0.1:{port}/api/events/"
    cookie = cookie_of()
    first = enqueue("tests.noop")
    second = enqueue("tests.noop")
    pages = [EventStream(f"{address}?job={first.id}&job={second.id}", cookie=cookie) for _ in range(5)]
    wait_until(lambda: all(page.state.get(f"job.{second.id}.status") == "pending" for page in pages))
    pages.pop().close()
    start_manage("runworker", "--until-empty")
    wait_until(lambda: all(page.state[f"job.{second.id}.status"] == "completed" for page in pages))
    assert not any(page.ended for page in pages)
    assert len({page.last_event_id for page in pages}) == 1
    for page in pages:
        page.close()


# -- ASGI --------------------------------------------------------------------------------------------------------------


def test_under_asgi_a_page_is_served_and_forgotten() -> None:
    job = enqueue("tests.noop")
    cookie = cookie_of()

    async def visit() -> str:
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/events/",
            "query_string": f"job={job.id}".encode(),
            "headers": [(b"cookie", cookie.encode()), (b"host", b"testserver")],
        }
        page = ApplicationCommunicator(get_asgi_application(), scope)
        await page.send_input({"type": "http.request", "body": b""})
        start = await page.receive_output(30)
        assert start["status"] == 200
        text = ""
        while "pending" not in text:
            text += (await page.receive_output(30))["body"].decode()
        assert hub.pages == 1
        await asyncio.to_thread(_cancel, job)
        while "cancelled" not in text:
            text += (await page.receive_output(30))["body"].decode()
        await page.send_input({"type": "http.disconnect"})
        await page.wait(30)
        return text

    text = asyncio.run(visit())
    assert "retry: 2000\n\n" in text
    wait_until(lambda: hub.pages == 0 and not hub.is_running)


def _cancel(job: Job) -> None:
    try:
        lifecycle.cancel([job.id])
    finally:
        connections.close_all()


# -- hints -------------------------------------------------------------------------------------------------------------


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
