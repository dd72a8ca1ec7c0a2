"""DATABASE_POOL: a process of the site has so many connections for all its requests; a worker none of them."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest
from django.db import connection

from jobs import database, enqueue
from jobs.models import Status
from jobs.testing import run_due_jobs
from tests.conftest import RunManage, StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import free_port, wait_until
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker
from tests.support.videos.video_site import accept, clip, current
from tests.support.videos.video_workers import worker_environment
from videos import storage

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no connections to share"),
]

POOL = 3
POOLED = {"DATABASE_POOL": str(POOL), "ALLOWED_HOSTS": "127.0.0.1", "PGAPPNAME": "pooled"}


def sessions() -> set[int]:
    rows = database.fetch("SELECT pid FROM pg_stat_activity WHERE application_name = 'pooled'")
    return {pid for (pid,) in rows}


@pytest.fixture
def site(start_manage: StartManage, videos_root: Path) -> str:
    """The address of an ASGI server."""
    port = free_port()
    process = start_manage(
        "project.asgi:application",
        f"--port={port}",
        "--log-level=warning",
        program=("-m", "uvicorn"),
        env=worker_environment() | POOLED,
    )

    def accepts() -> bool:
        assert process.poll() is None, process.read_output()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(accepts)
    return f"http://127.0.0.1:{port}"


def status(url: str) -> int:
    with urlopen(url, timeout=60) as answer:
        answer.read()
        return int(answer.status)


def test_many_requests_at_once_share_a_few_connections(site: str) -> None:
    video = accept(clip())
    most = 0
    with ThreadPoolExecutor(20) as visitors:
        for _ in range(5):
            visits = [visitors.submit(status, f"{site}/v/{video.slug}/") for _ in range(40)]
            while not all(visit.done() for visit in visits):
                most = max(most, len(sessions()))
            assert {visit.result() for visit in visits} == {200}
    assert 1 <= most <= POOL
    before = sessions()
    assert status(f"{site}/v/{video.slug}/") == 200
    assert sessions() & before, "they are kept for the next request"


def test_downloads_and_live_pages_hold_no_connection(site: str) -> None:
    video = accept(clip())
    run_due_jobs()
    name = "360p/seg_00001.m4s"
    with storage.published_file(video.pk, current(video).number, name).open("r+b") as file:
        file.truncate(64 << 20)
    waiting = accept(clip(), slug="waiting")
    port = int(site.rpartition(":")[2])
    with ExitStack() as open_ends:
        for path in [f"/v/{video.slug}/g1/{name}", f"/v/{waiting.slug}/events"] * (POOL + 1):
            visitor = open_ends.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            visitor.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert visitor.recv(12) == b"HTTP/1.1 200"
        assert status(f"{site}/v/{video.slug}/") == 200
        assert len(sessions()) <= POOL + 1, "one more listens for the live pages"


def test_a_worker_has_connections_of_its_own(start_manage: StartManage, log: str) -> None:
    """None is used before, so what a handler has done to one harms no other; and its session's lock ends with it."""
    process = start_manage("runworker", "--concurrency=2", env=QUICK | POOLED)
    wait_for_worker(process)
    jobs = [enqueue("work.use_database", log=log) for _ in range(10)]
    for job in jobs:
        wait_for_status(job, Status.COMPLETED)
    assert len({line["connection"] for line in read_notes(log)}) == 10
    isolated = enqueue("work.isolated", log=log, gate=__file__)
    assert wait_for_status(isolated, Status.COMPLETED, Status.FAILED).status == Status.COMPLETED
    wait_until(lambda: len(sessions()) <= 4)
    process.terminate()
    process.wait(30)
    wait_until(lambda: not sessions())


def test_commands_end_with_a_pool_too(run_manage: RunManage) -> None:
    assert not run_manage("jobs", "status", env=POOLED).stderr
