"""What people do to jobs: cancel, retry, discard, change the priority, run now. Each only where it makes sense."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import LOW, NORMAL, enqueue, lifecycle, orchestrator, workflow
from jobs.exceptions import TransitionRefused
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Event, Job, Status
from tests.support.queue.actors import (
    age,
    claim_one,
    claimed_ids,
    events_of,
    new_worker,
    outcomes_of,
    status_of,
    stored,
)

pytestmark = pytest.mark.django_db

PERMANENT = FailureReport("ValueError", "no", permanent=True)


def waiting() -> str:
    return str(enqueue("tests.noop", delay=3600).id)


def blocked() -> str:
    with workflow("w") as flow:
        return str(flow.add("tests.noop", after=[flow.add("tests.noop", delay=3600)]).id)


def pending() -> str:
    return str(enqueue("tests.noop").id)


def processing() -> str:
    job_id = pending()
    claim_one()
    return job_id


def completed() -> str:
    job_id = pending()
    lifecycle.complete(claim_one().lease, {"n": 1})
    return job_id


def failed() -> str:
    job_id = pending()
    lifecycle.fail(claim_one().lease, PERMANENT)
    return job_id


def cancelled() -> str:
    job_id = pending()
    lifecycle.cancel(job_id)
    return job_id


Make = Callable[[], str]


@pytest.mark.parametrize("make", [waiting, blocked, pending, processing])
def test_an_active_job_can_be_cancelled(make: Make) -> None:
    job_id = make()
    assert lifecycle.cancel(job_id) == [job_id]
    job = stored(job_id)
    assert (job.status, job.worker_id, job.blocked) == (Status.CANCELLED, None, False)
    assert job.cancelled_at is not None
    assert claimed_ids(new_worker()) == []


@pytest.mark.parametrize("make", [completed, failed, cancelled])
def test_cancelling_a_finished_job_does_nothing(make: Make) -> None:
    job_id = make()
    before = (Job.objects.filter(pk=job_id).values().get(), events_of(job_id))
    assert lifecycle.cancel(job_id) == []
    assert (Job.objects.filter(pk=job_id).values().get(), events_of(job_id)) == before


def test_the_lease_of_a_cancelled_job_is_over() -> None:
    worker = new_worker()
    enqueue("tests.noop")
    lease = claim_one(worker).lease
    lifecycle.cancel(lease.job_id)
    assert not lifecycle.live_leases(worker.pk)
    assert outcomes_of(lease.job_id) == ["cancelled"]


@pytest.mark.parametrize("make", [failed, cancelled])
def test_a_failed_or_cancelled_job_can_be_retried_with_all_attempts_ahead(make: Make) -> None:
    job_id = make()
    assert lifecycle.retry(job_id, actor="ada") == [job_id]
    job = stored(job_id)
    assert (job.status, job.attempt_number, job.cancelled_at) == (Status.PENDING, 0, None)
    assert Event.objects.filter(job_id=job_id, kind="retried").get().actor == "ada"
    for _ in range(2):
        lifecycle.fail(claim_one().lease, FailureReport("ValueError", "again"))
        age([job_id], 1)
        orchestrator.promote_due()
    lifecycle.complete(claim_one().lease)
    assert status_of(job_id) == Status.COMPLETED


def test_a_retry_keeps_the_error_in_the_attempts_and_begins_anew_otherwise() -> None:
    job_id = enqueue("tests.noop").id
    lease = claim_one().lease
    lifecycle.report_progress([lifecycle.ProgressReport(lease, 70, "muxing")])
    lifecycle.fail(lease, FailureReport("ValueError", "no such file", "Traceback …", permanent=True))
    lifecycle.retry(job_id)
    job = stored(job_id)
    assert (job.progress_percent, job.current_step, job.attempt_number) == (0, "", 0)
    attempt = Attempt.objects.get(job_id=job_id)
    assert (attempt.error, attempt.traceback) == ("no such file", "Traceback …")
    assert claim_one().lease.token > lease.token


def test_a_retry_of_many_takes_as_many_statements_as_one_of_few() -> None:
    statements = []
    for number in (2, 50):
        jobs = [cancelled() for _ in range(number)]
        with CaptureQueriesContext(connection) as queries:
            assert sorted(lifecycle.retry(jobs)) == sorted(jobs)
        statements.append(len(queries))
    assert statements[0] == statements[1]


@pytest.mark.parametrize("make", [waiting, blocked, pending, processing, completed])
def test_retrying_any_other_job_does_nothing(make: Make) -> None:
    job_id = make()
    before = (Job.objects.filter(pk=job_id).values().get(), events_of(job_id))
    assert lifecycle.retry(job_id) == []
    assert (Job.objects.filter(pk=job_id).values().get(), events_of(job_id)) == before


def test_a_retried_job_takes_its_place_behind_those_that_wait() -> None:
    old, new = failed(), pending()
    age([old], 2)
    age([new], 1)
    lifecycle.retry(old)
    assert claimed_ids(new_worker(), 2) == [new, old]


@pytest.mark.parametrize("make", [completed, failed, cancelled])
def test_a_finished_job_can_be_discarded_with_all_that_belongs_to_it(make: Make) -> None:
    job_id = make()
    assert lifecycle.discard(job_id) == 1
    assert not Job.objects.exists()
    assert not Attempt.objects.exists()
    assert not Event.objects.exists()


@pytest.mark.parametrize("make", [waiting, blocked, pending, processing])
def test_an_active_job_cannot_be_discarded(make: Make) -> None:
    done, active = completed(), make()
    with pytest.raises(TransitionRefused, match=active) as refusal:
        lifecycle.discard([active, done])
    assert refusal.value.code == "not_finished"
    assert status_of(active) in ("waiting", "pending", "processing")
    assert status_of(done) == Status.COMPLETED


def test_a_job_that_others_wait_for_cannot_be_discarded() -> None:
    with workflow("w") as flow:
        done = flow.add("tests.noop")
        flow.add("tests.noop", after=[done, flow.add("tests.noop", delay=60)])
    lifecycle.complete(claim_one().lease)
    with pytest.raises(TransitionRefused) as refusal:
        lifecycle.discard(done.id)
    assert refusal.value.code == "still_needed"
    assert status_of(done) == Status.COMPLETED


def test_discarding_what_is_not_there_discards_nothing() -> None:
    assert lifecycle.discard(["01ARZ3NDEKTSV4RRFFQ69G5FAV"]) == 0
    assert lifecycle.cancel([]) == lifecycle.retry([]) == []


@pytest.mark.parametrize("make", [waiting, blocked, pending])
def test_the_priority_of_a_job_that_has_not_started_can_be_changed(make: Make) -> None:
    job_id = make()
    assert lifecycle.change_priority(job_id, 1, actor="ada") == [job_id]
    assert stored(job_id).priority == 1
    assert events_of(job_id) == ["changed"]


def test_a_changed_priority_changes_the_order() -> None:
    first, second = pending(), pending()
    lifecycle.change_priority(first, LOW)
    assert claimed_ids(new_worker(), 2) == [second, first]


@pytest.mark.parametrize("make", [processing, completed, failed, cancelled])
def test_the_priority_of_a_job_that_has_started_stays(make: Make) -> None:
    job_id = make()
    assert lifecycle.change_priority(job_id, 1) == []
    assert stored(job_id).priority == 5
    assert "changed" not in events_of(job_id)


def test_a_job_that_waits_for_its_time_can_be_run_now() -> None:
    job_id = waiting()
    assert lifecycle.run_now(job_id, actor="ada") == [job_id]
    assert events_of(job_id) == ["changed"]
    assert claimed_ids(new_worker()) == [job_id]


def test_a_job_that_waits_for_its_next_attempt_can_be_run_now() -> None:
    job_id = pending()
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no"))
    assert lifecycle.run_now(job_id) == [job_id]
    assert claim_one().attempt == 2


@pytest.mark.parametrize("make", [blocked, pending, processing, completed, failed, cancelled])
def test_running_any_other_job_now_does_nothing(make: Make) -> None:
    job_id = make()
    before = (Job.objects.filter(pk=job_id).values().get(), events_of(job_id))
    assert lifecycle.run_now(job_id) == []
    assert (Job.objects.filter(pk=job_id).values().get(), events_of(job_id)) == before


def test_many_jobs_of_all_kinds_can_be_treated_together() -> None:
    done, gone = completed(), failed()
    running = processing()
    ready, later = pending(), waiting()
    everything = [done, gone, ready, running, later]
    assert sorted(lifecycle.cancel(everything)) == sorted([ready, running, later])
    assert sorted(lifecycle.retry(everything)) == sorted([gone, ready, running, later])
    assert status_of(done) == Status.COMPLETED


@pytest.mark.parametrize("nonsense", [2**31, True, "urgent"])
def test_what_is_no_priority_is_refused(nonsense: Any) -> None:
    job_id = enqueue("tests.noop").pk
    with pytest.raises(TransitionRefused) as refusal:
        lifecycle.change_priority(job_id, nonsense)
    assert refusal.value.code == "bad_priority"
    assert Job.objects.get(pk=job_id).priority == NORMAL
