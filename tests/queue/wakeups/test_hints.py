"""Workers are woken when there is something for them: after the commit, never before it, and never without it."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import DatabaseError, connection, transaction

from jobs import enqueue, enqueue_many, fleet, lifecycle, orchestrator, wakeup, workflow
from jobs.lifecycle import FailureReport
from jobs.live import hints as live_hints
from jobs.models import Job
from jobs.wakeup import local
from tests.conftest import Declare
from tests.support.processes import wait_until
from tests.support.queue.actors import age, claim_one, expire, new_worker

pytestmark = pytest.mark.django_db(transaction=True)


class PostgresHints:
    """A second connection that listens."""

    def __init__(self) -> None:
        self._wrapper = connection.copy()
        self._wrapper.ensure_connection()
        self._execute("LISTEN jobs_wakeup")

    def _execute(self, sql: str) -> None:
        with self._wrapper.cursor() as cursor:
            cursor.execute(sql)

    def count(self) -> int:
        """Hints since the last time. What this connection says itself comes after all that was committed before."""
        self._execute("NOTIFY jobs_wakeup, 'the fence'")
        for heard, notification in enumerate(self._wrapper.connection.notifies(timeout=30)):
            if notification.payload == "the fence":
                return heard
        raise AssertionError("the fence never came")

    def close(self) -> None:
        self._wrapper.close()


class LocalHints:
    """A socket beside those of the workers. What was sent to it has arrived when the sender goes on."""

    def __init__(self) -> None:
        folder = local._folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path: Path = folder / "listening-test.sock"
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))
        self._socket.setblocking(False)

    def count(self) -> int:
        heard = 0
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(16):
                heard += 1
        return heard

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresHints | LocalHints]:
    monkeypatch.setattr(wakeup, "COALESCE_SECONDS", 0)
    listener = PostgresHints() if connection.vendor == "postgresql" else LocalHints()
    yield listener
    listener.close()


Hints = PostgresHints | LocalHints


def test_a_job_wakes_workers_when_its_transaction_commits_and_not_before(hints: Hints) -> None:
    with transaction.atomic():
        enqueue("tests.noop")
        assert hints.count() == 0
    assert hints.count() == 1


def test_a_transaction_that_is_rolled_back_wakes_nobody(hints: Hints) -> None:
    with transaction.atomic():
        enqueue("tests.noop")
        enqueue_many("tests.noop", [{}] * 5)
        transaction.set_rollback(True)
    assert not Job.objects.exists()
    assert hints.count() == 0


def test_a_savepoint_that_is_rolled_back_wakes_nobody(hints: Hints) -> None:
    with transaction.atomic():
        with transaction.atomic():
            enqueue("tests.noop")
            transaction.set_rollback(True)
        assert not Job.objects.exists()
    assert hints.count() == 0


def test_without_a_transaction_the_job_wakes_workers_at_once(hints: Hints) -> None:
    enqueue("tests.noop")
    assert hints.count() == 1


def test_a_job_that_was_there_already_wakes_nobody(hints: Hints) -> None:
    enqueue("tests.noop", unique_key="k")
    hints.count()
    assert not enqueue("tests.noop", unique_key="k").created
    assert hints.count() == 0


def test_a_thousand_jobs_make_one_hint(hints: Hints) -> None:
    enqueue_many("tests.noop", [{}] * 1000)
    assert hints.count() == 1


def test_hints_in_quick_succession_are_one(hints: Hints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "COALESCE_SECONDS", 3600)
    for _ in range(5):
        enqueue("tests.noop")
    assert hints.count() == 1


def test_a_job_that_waits_for_another_wakes_nobody_until_it_is_ready(hints: Hints) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
    lease = claim_one().lease
    hints.count()
    flow.add("tests.noop", after=[first])
    assert hints.count() == 0
    lifecycle.complete(lease)
    assert hints.count() > 0


def test_promotion_retry_recovery_and_release_wake_workers(hints: Hints) -> None:
    job = enqueue("tests.noop", delay=60)
    age([job.id], 1)
    hints.count()
    orchestrator.promote_due()
    assert hints.count() > 0, "promotion"
    lifecycle.release([claim_one().lease])
    assert hints.count() > 0, "release"
    claim_one()
    expire(job.id)
    lifecycle.recover_expired()
    assert hints.count() > 0, "recovery"
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no", permanent=True))
    hints.count()
    lifecycle.retry(job.id)
    assert hints.count() > 0, "retry"


def test_by_hand_too(hints: Hints) -> None:
    job = enqueue("tests.noop", delay=60)
    worker = new_worker()
    fleet.disable([worker.pk])
    hints.count()
    lifecycle.change_priority(job.id, 1)
    assert hints.count() > 0, "change_priority"
    lifecycle.run_now(job.id)
    assert hints.count() > 0, "run_now"
    fleet.enable([worker.pk])
    assert hints.count() > 0, "enable"


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_a_place_under_a_limit_that_becomes_free_wakes_workers(
    hints: Hints, declare: Declare, end: str
) -> None:
    declare("here.limited", concurrency=1)
    enqueue_many("here.limited", [{}] * 2)
    lease = claim_one().lease
    hints.count()
    if end == "complete":
        lifecycle.complete(lease)
    elif end == "fail":
        lifecycle.fail(lease, FailureReport("ValueError", "no"))
    else:
        lifecycle.cancel(lease.job_id)
    assert hints.count() > 0


def test_a_hint_that_cannot_be_sent_does_not_hurt_the_enqueuer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no route")

    monkeypatch.setattr(
        f"jobs.wakeup.{'postgres' if connection.vendor == 'postgresql' else 'local'}.notify", broken
    )
    job = enqueue("tests.noop")
    assert Job.objects.filter(pk=job.id).exists()


def test_the_ear_of_a_worker_hears_it() -> None:
    heard = threading.Event()
    ready = threading.Event()
    ear = wakeup.make_ear(
        lambda: (heard if ready.is_set() else threading.Event()).set(), lock_key=None, on_lock=lambda: None
    )
    ear.start()
    try:
        ready.set()

        def enqueue_and_listen() -> bool:
            enqueue("tests.noop")
            return heard.wait(0.2)

        assert wait_until(enqueue_and_listen)
    finally:
        ear.stop()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a file has no connection that could be lost")
@pytest.mark.parametrize("send", [wakeup.send, live_hints._send], ids=["workers", "live pages"])
def test_a_hint_that_the_database_cannot_take_is_one_line_of_the_log(
    send: Callable[[], None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it restarts, there would be pages of tracebacks."""
    monkeypatch.setattr(live_hints, "_last_sent", float("-inf"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    other = connection.copy()
    with contextlib.closing(other), other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    send()
    connection.close()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert isinstance(record.args, tuple)
    assert isinstance(record.args[0], DatabaseError)
    assert record.exc_info is None
