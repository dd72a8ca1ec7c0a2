"""Minutes: every run that ended is counted once, whenever it ended and however the counting is cut into pieces."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import Sum

from jobs import database, enqueue_many, lifecycle, recovery, statistics
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, CountingMark, Minute, Worker
from jobs.statistics import Ended, History, count_minutes, read_history
from tests.support.queue.actors import new_worker

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _nothing_has_to_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SETTLED_AFTER", 0)


@pytest.fixture
def worker() -> Worker:
    return new_worker()


def run(worker: Worker, completed: int = 0, failed: int = 0) -> None:
    enqueue_many("tests.noop", [{}] * (completed + failed))
    leases = [claimed.lease for claimed in lifecycle.claim(worker, completed + failed)]
    for lease in leases[:completed]:
        lifecycle.complete(lease)
    for lease in leases[completed:]:
        lifecycle.fail(lease, FailureReport("ValueError", "no", permanent=True))


def counted() -> tuple[int, int]:
    sums = Minute.objects.aggregate(completed=Sum("completed", default=0), failed=Sum("failed", default=0))
    return sums["completed"], sums["failed"]


def shown() -> tuple[int, int]:
    minutes = read_history(DAY).minutes.values()
    return sum(ended.completed for ended in minutes), sum(ended.failed for ended in minutes)


def test_what_ended_is_counted_once(worker: Worker) -> None:
    run(worker, completed=3, failed=2)
    count_minutes()
    count_minutes()
    assert counted() == shown() == (3, 2)
    run(worker, completed=1)
    count_minutes()
    assert counted() == shown() == (4, 2)


def test_readers_see_what_is_not_counted_yet(worker: Worker) -> None:
    assert shown() == (0, 0)
    run(worker, completed=2)
    assert (counted(), shown()) == ((0, 0), (2, 0))
    count_minutes()
    run(worker, failed=1)
    assert (counted(), shown()) == ((2, 0), (2, 1))


def test_a_run_that_outlasts_the_counting_is_counted_when_it_ends(worker: Worker) -> None:
    enqueue_many("tests.noop", [{}] * 2)
    first, second = (claimed.lease for claimed in lifecycle.claim(worker, 2))
    count_minutes()
    run(worker, completed=1)
    lifecycle.complete(first)
    assert shown() == (2, 0)
    count_minutes()
    assert counted() == shown() == (2, 0)
    assert CountingMark.objects.get().still_open == [Attempt.objects.get(job_id=second.job_id).pk]
    lifecycle.complete(second)
    count_minutes()
    assert counted() == (3, 0)
    assert CountingMark.objects.get().still_open == []


def test_what_may_still_be_about_to_commit_is_left_for_later(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "SETTLED_AFTER", 3600)
    run(worker, completed=1)
    count_minutes()
    assert (counted(), shown()) == ((0, 0), (1, 0))


def test_many_runs_are_counted_in_pieces(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "BATCH", 3)
    monkeypatch.setattr(statistics, "BATCHES", 2)
    run(worker, completed=8)
    count_minutes()
    assert counted() == (6, 0)
    count_minutes()
    assert counted() == (8, 0)


def test_a_reader_does_not_count_what_is_too_much(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "FRESH", 3)
    run(worker, completed=4)
    history = read_history(DAY)
    assert (history.is_behind, history.minutes) == (True, {})
    count_minutes()
    assert shown() == (4, 0)


def test_lost_runs_are_failures_and_released_ones_are_neither(worker: Worker) -> None:
    enqueue_many("tests.noop", [{}] * 2)
    _, released = (claimed.lease for claimed in lifecycle.claim(worker, 2))
    lifecycle.release([released])
    lifecycle.recover_lost(worker.pk, "it is gone")
    assert shown() == (0, 1)
    count_minutes()
    assert counted() == (0, 1)


def test_each_run_is_counted_in_the_minute_in_which_it_ended(worker: Worker) -> None:
    run(worker, completed=2)
    first, second = Attempt.objects.order_by("pk")
    now = database.read_clock()
    earlier = now - timedelta(minutes=90)
    Attempt.objects.filter(pk=first.pk).update(finished_at=earlier)
    Attempt.objects.filter(pk=second.pk).update(finished_at=now)
    expected = {at.replace(second=0, microsecond=0): Ended(1, 0) for at in (earlier, now)}
    assert read_history(DAY).minutes == expected
    count_minutes()
    assert read_history(DAY).minutes == expected
    assert list(read_history(timedelta(hours=1)).minutes) == [now.replace(second=0, microsecond=0)]


def test_old_minutes_are_forgotten_and_old_runs_not_counted(worker: Worker) -> None:
    old = database.read_clock() - statistics.KEPT - timedelta(minutes=2)
    Minute.objects.create(at=old, completed=1)
    run(worker, completed=1)
    Attempt.objects.update(finished_at=old)
    count_minutes()
    assert not Minute.objects.exists()


def test_the_sweep_counts(worker: Worker) -> None:
    run(worker, completed=2)
    recovery.sweep()
    assert counted() == (2, 0)


def test_buckets_end_now_and_hold_what_ended_in_them() -> None:
    now = database.read_clock().replace(hour=12, minute=47, second=30, microsecond=0)
    minute = now.replace(second=0)
    minutes = {
        minute: Ended(1, 0),
        minute - timedelta(minutes=17): Ended(2, 1),
        minute - timedelta(minutes=18): Ended(4, 0),
        minute - timedelta(hours=25): Ended(8, 0),
    }
    buckets = History(now, minutes, False).buckets(48, timedelta(minutes=30))
    assert len(buckets) == 48
    assert buckets[-1] == (now.replace(minute=30, second=0), Ended(3, 1))
    assert buckets[-2] == (now.replace(minute=0, second=0), Ended(4, 0))
    assert sum(ended.completed for _, ended in buckets) == 7
