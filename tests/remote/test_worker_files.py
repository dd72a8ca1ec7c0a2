"""A remote worker and a real server: the source comes down once, files go up, and only the last one makes them real."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from jobs import enqueue
from jobs.models import Job
from tests.jobapp.notes import read_notes
from tests.support.processes import has_logged, wait_until
from tests.support.queue.actors import outcomes_of, status_of, stored
from tests.support.queue.workers import wait_for_status
from tests.support.remote.remote_site import RemoteSite, is_ready, started, stop

pytestmark = pytest.mark.django_db(transaction=True)

CONTENT = random.Random(7).randbytes(3_000_000)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "film.mp4"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    folder = tmp_path / "staging"
    folder.mkdir()
    return folder


def add(source: Path, log: str, name: str, type_name: str = "remote.copies", **more: Any) -> Job:
    return enqueue(type_name, log=log, source=str(source), target=str(source.parent / name), **more)


def is_copied(source: Path, name: str) -> bool:
    files = {path.name: path.read_bytes() for path in (source.parent / name).iterdir()}
    return files == dict.fromkeys(["0.bin", "1.bin", "2.bin"], CONTENT)


def test_files_go_both_ways_and_the_source_comes_once(
    remote_site: RemoteSite, log: str, source: Path, staging: Path
) -> None:
    jobs = [add(source, log, f"copies-{number}") for number in range(3)]
    alone = add(source, log, "copies-alone", "remote.copies_alone")
    remote_site.serve(TESTS_STAGING=str(staging))
    worker = remote_site.work("--drain", key=remote_site.key())
    assert worker.wait(timeout=120) == 0, worker.read_output()
    assert {status_of(job) for job in [*jobs, alone]} == {"completed"}
    for name in ("copies-0", "copies-1", "copies-2", "copies-alone"):
        assert is_copied(source, name)
    assert remote_site.server is not None
    asked = remote_site.server.read_output()
    assert sum("/source " in line for line in asked.splitlines()) == 1
    assert remote_site.files() == []
    assert list(staging.iterdir()) == []
    assert "Traceback" not in worker.read_output()


def test_what_is_there_already_is_only_completed(
    remote_site: RemoteSite, log: str, source: Path, staging: Path
) -> None:
    (source.parent / "copies").mkdir()
    job = add(source, log, "copies")
    remote_site.serve(TESTS_STAGING=str(staging))
    worker = remote_site.work("--drain", key=remote_site.key())
    assert worker.wait(timeout=120) == 0
    assert status_of(job) == "completed"
    assert read_notes(log) == []


def test_files_that_are_refused_or_missing_fail_the_job_with_the_reason(
    remote_site: RemoteSite, log: str, source: Path, staging: Path
) -> None:
    forbidden = add(source, log, "a", how="elsewhere", max_attempts=1)
    unfinished = add(source, log, "b", how="copies", max_attempts=1)
    remote_site.serve(TESTS_STAGING=str(staging))
    worker = remote_site.work("--drain", key=remote_site.key())
    assert worker.wait(timeout=120) == 0
    assert {status_of(forbidden), status_of(unfinished)} == {"failed"}
    assert "elsewhere/0.bin" in stored(forbidden.pk).last_error
    assert "the copies are missing" in stored(unfinished.pk).last_error
    assert list(staging.iterdir()) == []
    assert "Traceback" not in worker.read_output()


def test_a_server_that_restarts_in_the_middle_gets_the_rest(
    remote_site: RemoteSite, log: str, source: Path, staging: Path, gate: Path
) -> None:
    job = add(source, log, "copies", gate=str(gate))
    remote_site.serve(TESTS_STAGING=str(staging))
    worker = remote_site.work(key=remote_site.key())
    wait_until(lambda: read_notes(log, "sent"))
    remote_site.kill_server()
    gate.touch()
    wait_until(lambda: has_logged(worker, "server_not_asked"))
    remote_site.serve()
    wait_for_status(job, "completed")
    assert is_copied(source, "copies")
    assert outcomes_of(job.pk) == ["completed"]
    assert stop(worker) == 0


def test_late_files_of_a_frozen_worker_are_refused_and_another_one_finishes(
    remote_site: RemoteSite, log: str, source: Path, staging: Path, gate: Path
) -> None:
    job = add(source, log, "copies", gate=str(gate))
    remote_site.serve(TESTS_STAGING=str(staging), JOBS_CLAIM_DURATION="2s")
    late = remote_site.work(key=remote_site.key("late"))
    started(late, log)
    wait_until(lambda: read_notes(log, "sent"))
    os.kill(late.pid, signal.SIGSTOP)
    other = remote_site.work(key=remote_site.key("other"))
    started(other, log, 2)
    os.kill(late.pid, signal.SIGCONT)
    first = read_notes(log, "started")[0]
    wait_until(lambda: not Path(first["folder"]).exists())
    gate.touch()
    wait_for_status(job, "completed")
    assert is_copied(source, "copies")
    assert outcomes_of(job.pk) == ["lost", "completed"]
    assert is_ready(late)
    wait_until(lambda: list(staging.iterdir()) == [])
