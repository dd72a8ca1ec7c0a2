"""Progress and heartbeats keep a lease alive; a handler that shows no sign of life loses it."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import JobContext, database, enqueue, enqueue_many, fleet, lifecycle, recovery
from jobs.lifecycle import ProgressReport
from jobs.models import Job, Status
from tests.support.queue.actors import claim_one, claimed_ids, expire, new_worker, status_of, stored

pytestmark = pytest.mark.django_db


def seconds_left(job_id: str) -> float:
    """What remains of the job's lease, by the database's clock."""
    return float((stored(job_id).claim_expires_at - database.read_clock()).total_seconds())


def let_nearly_expire(job_id: str) -> None:
    Job.objects.filter(pk=job_id).update(claim_expires_at=database.now_plus(timedelta(seconds=60)))


def show_no_progress_for(job_id: str, seconds: float) -> None:
    Job.objects.filter(pk=job_id).update(last_checkpoint=database.now_minus(timedelta(seconds=seconds)))


def test_a_lease_lasts_as_long_as_the_setting_says(settings: Settings) -> None:
    settings.JOBS = {"CLAIM_DURATION": "7m"}
    enqueue("tests.noop")
    assert 410 < seconds_left(claim_one().lease.job_id) <= 420


def test_progress_is_stored_and_renews_the_lease() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    let_nearly_expire(job.id)
    show_no_progress_for(job.id, 1000)
    assert lifecycle.report_progress([ProgressReport(lease, 42.5, "muxing")]) == []
    after = stored(job)
    assert (after.progress_percent, after.current_step) == (42.5, "muxing")
    assert seconds_left(job.id) > 1700
    assert (database.read_clock() - after.last_checkpoint).total_seconds() < 60


def test_progress_is_kept_within_its_bounds_and_a_long_step_is_cut() -> None:
    enqueue_many("tests.noop", [{}] * 2)
    over, under = (claimed.lease for claimed in lifecycle.claim(new_worker(), 2))
    lifecycle.report_progress([ProgressReport(over, 250, "x" * 500), ProgressReport(under, -3)])
    assert (stored(over.job_id).progress_percent, stored(under.job_id).progress_percent) == (100, 0)
    assert stored(over.job_id).current_step == "x" * 100


def test_a_report_is_one_statement_and_the_token_decides_row_by_row() -> None:
    enqueue_many("tests.noop", [{}] * 4)
    worker = new_worker()
    first, second, gone, again = (claimed.lease for claimed in lifecycle.claim(worker, 4))
    lifecycle.cancel(gone.job_id)
    expire(again.job_id)
    lifecycle.recover_expired()
    fresh = claim_one(worker).lease
    assert (fresh.job_id, fresh.worker_id) == (again.job_id, again.worker_id)
    reports = [
        ProgressReport(lease, percent) for percent, lease in enumerate([first, gone, again, second], 1)
    ]
    assert lifecycle.report_progress([*reports, ProgressReport(first, 6)]) == [gone, again]
    with CaptureQueriesContext(connection) as queries:
        assert (
            lifecycle.report_progress([ProgressReport(second, 4), ProgressReport(first, 7, "last word")])
            == []
        )
    assert len([query for query in queries if not query["sql"].startswith(("SAVEPOINT", "RELEASE"))]) == 1
    assert [stored(lease.job_id).progress_percent for lease in (first, second, gone, again)] == [7, 4, 0, 0]
    assert stored(first.job_id).current_step == "last word"
    assert lifecycle.report_progress([*reports[2:3], ProgressReport(fresh, 9)]) == [again]
    assert stored(fresh.job_id).progress_percent == 9


@pytest.mark.parametrize("step", ["a\0b", "caf\udce9", None, 7], ids=["NUL", "surrogate", "none", "number"])
def test_a_step_that_no_database_stores_does_not_hurt_the_report(step: str) -> None:
    enqueue("tests.noop")
    reports: list[ProgressReport] = []
    context = JobContext(claim_one(), report=reports.append)
    context.progress(50, step=step)
    assert lifecycle.report_progress(reports) == []
    assert stored(context.id).progress_percent == 50


def test_a_heartbeat_renews_every_lease_of_its_worker_and_no_other() -> None:
    enqueue_many("tests.noop", [{}] * 3)
    worker, other = new_worker(), new_worker()
    mine, (foreign,) = claimed_ids(worker, 2), claimed_ids(other, 1)
    for job_id in (*mine, foreign):
        let_nearly_expire(job_id)
    fleet.heartbeat(worker, busy=True)
    assert lifecycle.renew(worker.pk) == 2
    assert all(seconds_left(job_id) > 1700 for job_id in mine)
    assert seconds_left(foreign) <= 60


def test_a_heartbeat_does_not_renew_the_lease_of_a_job_without_progress() -> None:
    enqueue_many("tests.noop", [{}] * 2)
    worker = new_worker()
    hung, alive = claimed_ids(worker, 2)
    show_no_progress_for(hung, 30 * 60 + 1)
    show_no_progress_for(alive, 30 * 60 - 60)
    for job_id in (hung, alive):
        let_nearly_expire(job_id)
    assert lifecycle.renew(worker.pk) == 1
    assert (seconds_left(hung) <= 60, seconds_left(alive) > 1700) == (True, True)


def test_the_stale_timeout_is_a_setting(settings: Settings) -> None:
    settings.JOBS = {"STALE_TIMEOUT": "10s"}
    enqueue("tests.noop")
    worker = new_worker()
    (job,) = claimed_ids(worker)
    show_no_progress_for(job, 11)
    assert lifecycle.renew(worker.pk) == 0


def test_progress_makes_a_job_renewable_again() -> None:
    enqueue("tests.noop")
    worker = new_worker()
    lease = claim_one(worker).lease
    show_no_progress_for(lease.job_id, 3600)
    assert lifecycle.renew(worker.pk) == 0
    lifecycle.report_progress([ProgressReport(lease, 1)])
    assert lifecycle.renew(worker.pk) == 1


def test_a_new_attempt_starts_with_a_clean_slate() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    lifecycle.report_progress([ProgressReport(lease, 90, "nearly there")])
    show_no_progress_for(job.id, 3600)
    expire(job.id)
    lifecycle.recover_expired()
    worker = new_worker()
    claim_one(worker)
    assert (stored(job).progress_percent, stored(job).current_step) == (0, "")
    assert lifecycle.renew(worker.pk) == 1


def test_finished_jobs_are_not_renewed() -> None:
    enqueue("tests.noop")
    worker = new_worker()
    lifecycle.complete(claim_one(worker).lease)
    assert lifecycle.renew(worker.pk) == 0


def test_live_leases_are_what_the_database_knows() -> None:
    enqueue_many("tests.noop", [{}] * 3)
    worker = new_worker()
    first, second, third = (claimed.lease for claimed in lifecycle.claim(worker, 3))
    lifecycle.complete(first)
    lifecycle.cancel(second.job_id)
    assert set(lifecycle.live_leases(worker.pk)) == {third}


def test_expiry_counts_only_for_leases_whose_time_is_up(settings: Settings) -> None:
    settings.JOBS = {"RECOVERY_GRACE": "1ms"}
    enqueue_many("tests.noop", [{}] * 2)
    old, young = claimed_ids(new_worker(), 2)
    expire(old)
    assert recovery.end_expired_leases() == [old]
    assert status_of(young) == Status.PROCESSING
