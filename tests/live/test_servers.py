"""Live pages of a server process of its own, by WSGI and by ASGI, while other processes do the work.

Two hundred open pages cost one thread that asks the database, over one connection.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.asgi import get_asgi_application
from django.db import connection, connections

from jobs import database, enqueue, lifecycle, watch
from jobs.lifecycle import ProgressReport
from jobs.live.hub import hub
from jobs.models import Job
from tests.conftest import StartManage
from tests.support.pages.live_pages import cookie_of
from tests.support.processes import free_port, wait_until
from tests.support.queue.actors import claim_one
from tests.support.servers.sse import EventStream

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = 200
MOST_STATEMENTS = 15
"""In a second: the source looks, and one topic is read. Two hundred that ask for themselves would send hundreds."""
WEB = "web"

Commands = dict[str, tuple[tuple[str, ...], Callable[[int], list[str]]]]
SERVERS: Commands = {
    "wsgi": (("manage.py",), lambda port: ["runserver", "--noreload", f"127.0.0.1:{port}"]),
    "asgi": (
        ("-m", "uvicorn"),
        lambda port: ["project.asgi:application", f"--port={port}", "--log-level=warning"],
    ),
}


class WebProcess:
    """A server that notes its statements. `open("?job=…")` is one more page that somebody with all rights looks at."""

    def __init__(self, kind: str, start: StartManage, notes: Path) -> None:
        program, arguments = SERVERS[kind]
        port = free_port()
        self._notes = notes
        self._cookie = cookie_of()
        self.url = f"http://127.0.0.1:{port}"
        self._process = start(
            *arguments(port),
            program=program,
            env={
                "ALLOWED_HOSTS": "127.0.0.1",
                "DJANGO_SETTINGS_MODULE": "tests.jobapp.noted_statements",
                "PGAPPNAME": WEB,
                "STATEMENTS_LOG": str(notes),
            },
        )
        wait_until(lambda: self._accepts(port))

    def _accepts(self, port: int) -> bool:
        assert self._process.poll() is None, self._process.read_output()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def open(self, query: str) -> EventStream:
        return EventStream(f"{self.url}/api/events/{query}", cookie=self._cookie)

    def statements(self) -> list[dict[str, str]]:
        whole_lines = self._notes.read_text().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in whole_lines]

    @staticmethod
    def sessions() -> int:
        """Its connections, as PostgreSQL counts them."""
        rows = database.fetch(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{WEB}'")
        return int(rows[0][0])


@pytest.fixture(params=SERVERS)
def web(start_manage: StartManage, tmp_path: Path, request: pytest.FixtureRequest) -> WebProcess:
    return WebProcess(request.param, start_manage, tmp_path / "statements")


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_two_hundred_pages_cost_one_thread_that_asks_and_hear_every_step(
    web: WebProcess, closing: ExitStack
) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    shown = f"job.{job.id}.percent"
    pages = []
    for _ in range(PAGES):
        pages.append(web.open(f"?job={job.id}"))
        closing.callback(pages[-1].close)
    wait_until(lambda: all(page.state.get(shown) == 0 for page in pages))

    began, before = time.monotonic(), len(web.statements())
    for percent in (20, 40, 60, 80):
        lifecycle.report_progress([ProgressReport(lease, percent)])
        wait_until(lambda p=percent: all(page.state[shown] == p for page in pages))  # type: ignore[misc]
    asked = [statement for statement in web.statements()[before:] if statement["thread"] != watch.THREAD]
    assert {statement["thread"] for statement in asked} == {"live-hub"}
    assert len(asked) <= MOST_STATEMENTS * (time.monotonic() - began) + MOST_STATEMENTS
    assert not any(page.ended for page in pages)
    if connection.vendor == "postgresql":
        wait_until(lambda: web.sessions() == 1)

    closing.close()
    percents = iter(range(1, 10_000))

    def has_let_go() -> bool:
        """A server notices that a page is gone when it has something to tell it."""
        lifecycle.report_progress([ProgressReport(lease, next(percents) % 100)])
        return web.sessions() == 0

    if connection.vendor == "postgresql":
        wait_until(has_let_go, interval=0.3)


def test_pages_follow_a_worker_process(
    web: WebProcess, start_manage: StartManage, closing: ExitStack
) -> None:
    first, second = enqueue("tests.noop"), enqueue("tests.noop")
    pages = [web.open(f"?job={first.id}&job={second.id}") for _ in range(5)]
    for page in pages:
        closing.callback(page.close)
    wait_until(lambda: all(page.state.get(f"job.{second.id}.status") == "pending" for page in pages))
    pages.pop().close()
    start_manage("runworker", "--until-empty")
    wait_until(lambda: all(page.state[f"job.{second.id}.status"] == "completed" for page in pages))
    assert not any(page.ended for page in pages)
    assert len({page.last_event_id for page in pages}) == 1


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
    assert "retry: 3000\n\n" in text
    wait_until(lambda: hub.pages == 0 and not hub.is_running)


def _cancel(job: Job) -> None:
    try:
        lifecycle.cancel([job.id])
    finally:
        connections.close_all()
