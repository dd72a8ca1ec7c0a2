"""Sources of remote workers: fetched once, resumed, verified, kept within bounds."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import JobCancelled
from jobs.worker.context import CANCELLED
from jobs.worker.source_cache import SourceDamaged, WorkerDiskFull
from tests.support import ROOT
from tests.support.processes import wait_until
from tests.support.servers.stand_in import StandIn

CONTENT = random.Random(5).randbytes(600_000)


@pytest.fixture
def server() -> Iterator[StandIn]:
    server = StandIn(CONTENT)
    yield server
    server.close()


def cached(folder: Path) -> set[str]:
    return {path.name for path in (folder / "sources").iterdir()}


def test_a_source_is_fetched_once_however_many_jobs_need_it(server: StandIn, tmp_path: Path) -> None:
    first, second = server.site(tmp_path, job_id="01A"), server.site(tmp_path, job_id="01B")
    paths = [first.site.source(), second.site.source(), first.site.source()]
    assert len(set(paths)) == 1
    assert paths[0].read_bytes() == CONTENT
    assert paths[0].suffix == ".mp4"
    assert server.asked.count("GET source") == 1
    first.site.close()
    second.site.close()
    assert cached(tmp_path) == {server.sha256}, "kept for the next one"


def test_a_fetch_that_was_cut_goes_on_where_it_stopped(server: StandIn, tmp_path: Path) -> None:
    server.cut_after = [200_000, 100_000]
    assert server.site(tmp_path).site.source().read_bytes() == CONTENT
    assert [line for line in server.asked if "source" in line] == [
        "GET source",
        "GET source bytes=200000-",
        "GET source bytes=300000-",
    ]


def test_what_a_killed_worker_has_fetched_is_not_fetched_again(server: StandIn, tmp_path: Path) -> None:
    home = tmp_path / "sources" / server.sha256
    home.mkdir(parents=True)
    (home / "part").write_bytes(CONTENT[:500_000])
    assert server.site(tmp_path).site.source().read_bytes() == CONTENT
    assert server.asked == ["GET order", "GET source bytes=500000-"]


@pytest.mark.parametrize("part", [b"x" * 100_000, b"x" * 700_000, CONTENT[:-1] + b"x"])
def test_a_part_that_is_wrong_costs_a_second_fetch(server: StandIn, tmp_path: Path, part: bytes) -> None:
    home = tmp_path / "sources" / server.sha256
    home.mkdir(parents=True)
    (home / "part").write_bytes(part)
    assert server.site(tmp_path).site.source().read_bytes() == CONTENT


def test_another_checksum_than_promised_is_refused(server: StandIn, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"?"
    job = server.site(tmp_path)
    with pytest.raises(SourceDamaged) as refusal:
        job.site.source()
    assert refusal.value.code == "wrong_checksum"
    assert server.asked.count("GET source") == 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]


def test_more_than_promised_is_refused(server: StandIn, tmp_path: Path) -> None:
    order = {"name": "x", "bytes": 10, "sha256": server.sha256}
    server.order["source"] = order
    with pytest.raises(SourceDamaged) as refusal:
        server.site(tmp_path).site.source()
    assert refusal.value.code == "too_long"


@pytest.mark.parametrize(
    "wrong", [{"sha256": "../../etc"}, {"sha256": "A" * 64}, {"bytes": -1}, {"bytes": "5"}, {"name": None}]
)
def test_a_description_that_makes_no_sense_becomes_no_path(
    server: StandIn, tmp_path: Path, wrong: dict[str, object]
) -> None:
    server.order["source"] = {"name": "x", "bytes": 5, "sha256": server.sha256, **wrong}
    with pytest.raises(SourceDamaged) as refusal:
        server.site(tmp_path).site.source()
    assert refusal.value.code == "bad_description"
    assert cached(tmp_path) == set()


def test_the_name_of_a_source_leads_nowhere(server: StandIn, tmp_path: Path) -> None:
    server.order["source"] = {"name": "a.b/../../x.mp4/..", "bytes": len(CONTENT), "sha256": server.sha256}
    path = server.site(tmp_path).site.source()
    assert path.parent.parent == tmp_path / "sources"


def test_what_was_not_used_for_long_makes_room_and_what_is_in_use_stays(tmp_path: Path) -> None:
    limit = 2 * len(CONTENT) + 1000
    servers = [StandIn(bytes([number]) + CONTENT) for number in range(4)]
    try:
        used, old, recent, newest = (server.site(tmp_path, cache_bytes=limit) for server in servers)
        path = used.site.source()
        for job, server in ((old, servers[1]), (recent, servers[2])):
            job.site.source()
            job.site.close()
            assert cached(tmp_path) == {servers[0].sha256, server.sha256}
        newest.site.source()
        assert cached(tmp_path) == {servers[0].sha256, servers[3].sha256}
        assert path.exists(), "although nobody has asked for it for the longest time"
        used.site.close()
        newest.site.close()
        assert cached(tmp_path) == {servers[0].sha256, servers[3].sha256}
    finally:
        for server in servers:
            server.close()


def test_a_source_larger_than_the_cache_is_used_and_not_kept(server: StandIn, tmp_path: Path) -> None:
    job = server.site(tmp_path, cache_bytes=1000)
    assert job.site.source().read_bytes() == CONTENT
    job.site.close()
    assert cached(tmp_path) == set()


def test_a_disk_without_room_is_a_clear_failure(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**6, 10**6, 1000))
    with pytest.raises(WorkerDiskFull, match=r"600,000\b.*\b1,000\b"):
        server.site(tmp_path).site.source()
    assert "GET source" not in server.asked


def test_two_processes_and_their_threads_fetch_it_once(server: StandIn, tmp_path: Path) -> None:
    server.pause = 0.05
    program = (
        "import sys, threading; from pathlib import Path\n"
        "import django; django.setup()\n"
        "from tests.support.servers.stand_in import OneJob, KEY; from jobs.worker.over_http.connection import Access\n"
        "class Server: access = Access(sys.argv[1], KEY)\n"
        "def run():\n"
        "    path = OneJob(Server, Path(sys.argv[2]), 1 << 30, '01X').site.source()\n"
        "    assert path.stat().st_size == 600000\n"
        "threads = [threading.Thread(target=run) for _ in range(3)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]"
    )
    command = [sys.executable, "-c", program, server.access.server, str(tmp_path)]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    processes = [subprocess.Popen(command, cwd=ROOT, env=environment) for _ in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert [line for line in server.asked if "source" in line] == ["GET source"]


def test_a_job_that_is_stopped_leaves_the_fetch_to_the_next(server: StandIn, tmp_path: Path) -> None:
    server.pause = 0.2
    job, problems = server.site(tmp_path), list[BaseException]()

    def fetch() -> None:
        try:
            job.site.source()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=fetch)
    thread.start()
    part = tmp_path / "sources" / server.sha256 / "part"
    wait_until(part.exists)
    job.context.stop(CANCELLED)
    thread.join(timeout=60)
    assert [type(problem) for problem in problems] == [JobCancelled]
    server.pause = 0
    assert server.site(tmp_path).site.source().read_bytes() == CONTENT
