"""An idle worker is told of a new job; where nobody tells it, it finds the job by itself."""

import os
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection, transaction

from jobs import enqueue, wakeup
from jobs.wakeup import Ear, local
from jobs.worker.at_database import AWAKE_SECONDS
from tests.conftest import StartManage
from tests.support.processes import ManageProcess, wait_until
from tests.support.queue.actors import Background
from tests.support.queue.workers import wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)

DROWSY = {"JOBS_TICK_INTERVAL": "10m", "JOBS_SWEEP_INTERVAL": "10m"}
"""A worker that, once it sleeps, looks for jobs with its heartbeats only, every 30 seconds."""
DEAF = {"JOBS_SESSION_FEATURES": "false"}


class Hints:
    """How often an ear was told something."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        self.count += 1


Listen = Callable[[], Hints]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """An ear in this process, as a worker has one; ready to hear."""
    ears: list[Ear] = []

    def listen() -> Hints:
        hints = Hints()
        ear = wakeup.make_ear(hints.add, lock_key=None, on_lock=lambda: None)
        ears.append(ear)
        ear.start()
        if connection.vendor == "postgresql":
            wait_until(lambda: hints.count)  # the first look after LISTEN
            hints.count = 0
        return hints

    yield listen
    for ear in ears:
        ear.stop()


def sleeping(start_manage: StartManage, **environment: str) -> ManageProcess:
    """A worker that has found nothing to do and sleeps."""
    process = start_manage("runworker", env=environment)
    wait_for_worker(process)
    wait_until(lambda: "is ready" in process.read_output())
    fall_asleep()
    return process


def fall_asleep() -> None:
    """An idle worker goes on looking for a moment. The tests pass while it looks; they prove more when it sleeps."""
    time.sleep(3 * AWAKE_SECONDS)


def test_a_sleeping_worker_is_woken_by_an_enqueue(start_manage: StartManage) -> None:
    """By NOTIFY on PostgreSQL, by a local datagram on SQLite, long before it would look by itself."""
    sleeping(start_manage, **DROWSY)
    for _ in range(3):
        assert wait_for_status(enqueue("tests.noop"), "completed", timeout=15).status == "completed"
        fall_asleep()


def test_a_worker_without_hints_finds_jobs_by_polling(start_manage: StartManage) -> None:
    sleeping(start_manage, **DEAF, JOBS_TICK_INTERVAL="100ms")
    assert wait_for_status(enqueue("tests.noop"), "completed").status == "completed"


def test_a_delayed_job_runs_when_its_time_comes_without_a_hint(start_manage: StartManage) -> None:
    sleeping(start_manage, **DEAF, JOBS_TICK_INTERVAL="100ms")
    job = enqueue("tests.noop", delay=0.5)
    assert job.status == "waiting"
    done = wait_for_status(job, "completed")
    assert done.started_at is not None
    assert done.started_at >= done.run_at


def test_a_hint_goes_out_with_the_commit_and_not_before(listen: Listen) -> None:
    hints = listen()
    with transaction.atomic():
        enqueue("tests.noop")
        Background(wakeup.send).result()
        wait_until(lambda: hints.count == 1)  # that of the other connection, so hints do arrive
        wakeup._last_sent.clear()  # two hints within 10 ms are one
    assert wait_until(lambda: hints.count == 2)


def test_a_rollback_sends_no_hint(listen: Listen) -> None:
    hints = listen()
    with transaction.atomic():
        enqueue("tests.noop")
        transaction.set_rollback(True)
    enqueue("tests.noop")
    wait_until(lambda: hints.count)
    assert hints.count == 1, "only the job that exists was announced"


def test_every_listening_worker_hears_of_a_burst_once_or_a_few_times(listen: Listen) -> None:
    ears = [listen(), listen()] if connection.vendor == "postgresql" else [listen()]
    for _ in range(50):
        enqueue("tests.noop")
    for hints in ears:
        wait_until(lambda hints=hints: hints.count)  # type: ignore[misc]
        assert hints.count < 50, "hints are coalesced"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no socket files")
def test_the_socket_file_of_a_dead_worker_is_harmless(start_manage: StartManage) -> None:
    victim = sleeping(start_manage, **DROWSY)
    victim.kill()
    victim.wait()
    stale = local._folder() / f"{victim.pid}.sock"
    assert stale.is_socket()
    sleeping(start_manage, **DROWSY)
    wait_for_status(enqueue("tests.noop"), "completed", timeout=15)
    assert not stale.exists(), "and it was cleared away"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no socket files")
def test_a_full_socket_keeps_no_enqueuer_waiting() -> None:
    folder = local._folder()
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{os.getpid()}-deaf.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(path))
        for _ in range(1000):
            local.notify()
        assert path.exists()
    path.unlink()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a socket has no connection that may break")
def test_a_worker_whose_ear_was_cut_off_hears_again(start_manage: StartManage) -> None:
    sleeping(start_manage, **DROWSY)
    with connection.cursor() as cursor:
        listening = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND pid <> pg_backend_pid()"
        cursor.execute(f"SELECT pid, pg_terminate_backend(pid) {listening}")
        ended = {pid for pid, _ in cursor.fetchall()}  # its own, and what an earlier test may have left
        assert ended

        def listens_again() -> bool:
            cursor.execute(f"SELECT pid {listening}")
            return bool({pid for (pid,) in cursor.fetchall()} - ended)

        wait_until(listens_again)
    assert wait_for_status(enqueue("tests.noop"), "completed", timeout=15).status == "completed"
