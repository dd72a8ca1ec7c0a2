"""Totals of runs: each counted once, by type, with how long it waited and ran; and never less than before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobs import database, enqueue, enqueue_many, lifecycle, recovery, run_totals, statistics
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Job, RunTotal
from jobs.run_totals import BOUNDS, cumulate
from tests.support.queue.actors import claim_one, new_worker

pytestmark = pytest.mark.django_db

NO = FailureReport("ValueError", "no")
FINAL = FailureReport("ValueError", "no", permanent=True)
WORDS = ("completed", "failed", "lost", "released", "cancelled", "exhausted")


@pytest.fixture(autouse=True)
def _nothing_has_to_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SETTLED_AFTER", 0)


def total(type_name: str = "tests.noop") -> Any:
    statistics.count_minutes()
    return RunTotal.objects.filter(pk=type_name).first() or RunTotal(type=type_name)


def counts(type_name: str = "tests.noop") -> tuple[int, ...]:
    found = total(type_name)
    return tuple(getattr(found, word) for word in WORDS)


def test_every_way_to_end_is_counted_once() -> None:
    worker = new_worker()
    enqueue_many("tests.noop", [{}] * 6, max_attempts=1)
    completed, failed, lost, released, cancelled, running = lifecycle.claim(worker, 6)
    lifecycle.complete(completed.lease)
    lifecycle.fail(failed.lease, NO)
    lifecycle.release([released.lease])
    lifecycle.cancel(cancelled.lease.job_id)
    assert counts() == (1, 1, 0, 1, 1, 1)
    lifecycle.recover_lost(worker.pk, "it is gone")  # the two that still run
    assert counts() == counts() == (1, 1, 2, 1, 1, 3)
    assert (
        Job.objects.get(pk=lost.lease.job_id).status
        == Job.objects.get(pk=running.lease.job_id).status
        == "failed"
    )


def test_only_the_last_attempt_exhausts_a_job() -> None:
    enqueue("tests.noop", max_attempts=2)
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no", retry_in=timedelta(0)))
    assert counts() == (0, 1, 0, 0, 0, 0)
    lifecycle.run_now(list(Job.objects.values_list("pk", flat=True)))
    lifecycle.fail(claim_one().lease, NO)
    assert counts() == (0, 2, 0, 0, 0, 1)
    enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, FINAL)
    assert counts() == (0, 3, 0, 0, 0, 1)


def test_each_type_has_its_own() -> None:
    for name in ("tests.noop", "work.record", "work.record"):
        enqueue(name, {"log": ""} if name == "work.record" else None)
        lifecycle.complete(claim_one().lease)
    assert (counts()[0], counts("work.record")[0]) == (1, 2)


def test_how_long_it_waited_and_ran_falls_into_a_bucket() -> None:
    for waited, ran in ((0.02, 0.2), (7, 100), (100_000, 100_000)):
        job = enqueue("tests.noop")
        lifecycle.complete(claim_one().lease)
        ended = database.read_clock()
        started = ended - timedelta(seconds=ran)
        Attempt.objects.filter(job_id=job.id).update(started_at=started, finished_at=ended)
        Job.objects.filter(pk=job.id).update(run_at=started - timedelta(seconds=waited))
    found = total()
    assert found.waited == {"0.05": 1, "10": 1, "+Inf": 1}
    assert found.ran == {"0.5": 1, "300": 1, "+Inf": 1}
    assert found.waited_seconds == pytest.approx(100_007.02, abs=0.01)
    assert found.ran_seconds == pytest.approx(100_100.2, abs=0.01)


def test_a_run_that_was_tried_again_says_nothing_about_waiting() -> None:
    enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, NO)
    found = total()
    assert (sum(found.ran.values()), found.waited) == (1, {})


def test_nothing_is_taken_away_when_jobs_are_pruned_or_discarded(settings: Any) -> None:
    enqueue_many("tests.noop", [{}] * 3, max_attempts=1)
    first, second, third = lifecycle.claim(new_worker(), 3)
    lifecycle.complete(first.lease)
    lifecycle.complete(second.lease)
    lifecycle.fail(third.lease, NO)
    before = counts()
    settings.JOBS = {"RETENTION": "1ms"}
    Job.objects.filter(status="completed").update(completed_at=database.now_minus(timedelta(days=1)))
    assert recovery.prune_jobs() == 2
    lifecycle.discard(third.lease.job_id)
    assert not Attempt.objects.exists()
    assert counts() == before == (2, 1, 0, 0, 0, 1)
    enqueue("tests.noop")
    lifecycle.complete(claim_one().lease)
    assert counts() == (3, 1, 0, 0, 0, 1)


def test_the_sweep_counts_before_it_prunes(settings: Any) -> None:
    settings.JOBS = {"RETENTION": "1ms"}
    enqueue("tests.noop")
    lifecycle.complete(claim_one().lease)
    Job.objects.update(completed_at=database.now_minus(timedelta(days=1)))
    recovery.sweep()
    assert not Job.objects.exists()
    assert RunTotal.objects.get().completed == 1


def test_code_that_is_newer_than_the_schema_counts_minutes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "has_table", lambda model: model is not RunTotal)
    enqueue("tests.noop")
    lifecycle.complete(claim_one().lease)
    statistics.count_minutes()
    assert not RunTotal.objects.exists()
    assert sum(ended.completed for ended in statistics.read_history(timedelta(hours=1)).minutes.values()) == 1


def test_buckets_add_up_also_with_bounds_of_another_release() -> None:
    ends = dict(cumulate({"0.01": 1, "0.07": 2, "14400": 3, "+Inf": 4}))
    assert (ends["0.01"], ends["0.05"], ends["0.1"], ends["14400"], ends["+Inf"]) == (1, 1, 3, 6, 10)
    assert list(ends) == [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]


def test_every_outcome_has_a_column() -> None:
    columns = {field.name for field in RunTotal._meta.concrete_fields}
    assert set(run_totals.OUTCOMES) <= columns
