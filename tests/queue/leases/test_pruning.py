"""Old jobs are deleted when they are done and nobody needs them; failed ones stay until someone decides."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F
from pytest_django import Settings

from jobs import JobContext, database, enqueue, enqueue_many, lifecycle, recovery, workflow
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Event, Job, Prerequisite, Status, SubmissionWindow, Worker, Workflow
from jobs.ulid import ulid_floor
from tests.support.queue.actors import claim_one, claimed_ids, new_worker, status_of

pytestmark = pytest.mark.django_db

PERMANENT = FailureReport("ValueError", "no", permanent=True)


def send_back(job_id: str, days: float) -> str:
    """As if all this had happened so long ago. The id carries the time, so the job gets another."""
    by = timedelta(days=days)
    old = ulid_floor((database.read_clock() - by).timestamp())[:10] + job_id[10:]
    with transaction.atomic():
        Job.objects.filter(pk=job_id).update(
            id=old,
            created_at=F("created_at") - by,
            run_at=F("run_at") - by,
            completed_at=F("completed_at") - by,
            cancelled_at=F("cancelled_at") - by,
        )
        Attempt.objects.filter(job_id=job_id).update(job_id=old)
        Event.objects.filter(job_id=job_id).update(job_id=old)
        Prerequisite.objects.filter(job_id=job_id).update(job_id=old)
        Prerequisite.objects.filter(needs_id=job_id).update(needs_id=old)
        Job.objects.filter(parent_id=job_id).update(parent_id=old)
        Job.objects.filter(cancelled_because=job_id).update(cancelled_because=old)
    return old


def completed() -> str:
    job = enqueue("tests.noop")
    lifecycle.complete(claim_one().lease)
    return str(job.id)


def remaining() -> set[str]:
    return set(Job.objects.values_list("pk", flat=True))


def test_completed_and_cancelled_jobs_go_after_the_retention_with_all_that_belongs_to_them() -> None:
    send_back(completed(), days=31)
    cancelled = enqueue("tests.noop").id
    lifecycle.cancel(cancelled)
    send_back(cancelled, days=31)
    assert recovery.prune_jobs() == 2
    assert remaining() == set()
    assert not Attempt.objects.exists()
    assert not Event.objects.exists()


def test_young_jobs_stay() -> None:
    kept = {completed(), send_back(completed(), days=29)}
    assert recovery.prune_jobs() == 0
    assert remaining() == kept


def test_the_retention_is_a_setting(settings: Settings) -> None:
    settings.JOBS = {"RETENTION": "2d"}
    young = send_back(completed(), days=1)
    send_back(completed(), days=3)
    assert recovery.prune_jobs() == 1
    assert remaining() == {young}


def test_a_job_that_was_enqueued_long_ago_but_has_ended_lately_stays() -> None:
    job = send_back(enqueue("tests.noop").id, days=100)
    lifecycle.complete(claim_one().lease)
    other = send_back(enqueue("tests.noop").id, days=100)
    lifecycle.cancel(other)
    assert recovery.prune_jobs() == 0
    assert remaining() == {job, other}


def test_failed_jobs_stay_whatever_their_age() -> None:
    job = enqueue("tests.noop").id
    lifecycle.fail(claim_one().lease, PERMANENT)
    old = send_back(job, days=1000)
    assert recovery.prune_jobs() == 0
    assert lifecycle.retry(old) == [old]


def test_active_jobs_stay_whatever_their_age() -> None:
    running = send_back(enqueue("tests.noop").id, days=100)
    claim_one()
    pending = send_back(enqueue("tests.noop").id, days=100)
    waiting = send_back(enqueue("tests.noop", delay=3600).id, days=100)
    assert recovery.prune_jobs() == 0
    assert remaining() == {running, pending, waiting}


def test_jobs_of_a_workflow_stay_as_long_as_it_goes_on() -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop").id
        second = flow.add("tests.noop", after=[first]).id
    lifecycle.complete(claim_one().lease)
    first = send_back(first, days=100)
    assert recovery.prune_jobs() == 0
    lifecycle.complete(claim_one().lease)
    send_back(second, days=100)
    assert recovery.prune_jobs() == 2
    assert not Prerequisite.objects.exists()


def test_what_a_failed_job_has_cancelled_stays_with_it_to_be_revived() -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop").id
        second = flow.add("tests.noop", after=[first]).id
    lifecycle.fail(claim_one().lease, PERMANENT)
    first, second = send_back(first, days=100), send_back(second, days=100)
    assert recovery.prune_jobs() == 0
    assert sorted(lifecycle.retry(first)) == sorted([first, second])
    for _ in range(2):
        lifecycle.complete(claim_one().lease)
    assert status_of(second) == Status.COMPLETED


def test_a_failed_job_whose_completed_prerequisite_was_pruned_can_be_retried() -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop").id
        second = flow.add("tests.noop", after=[first]).id
    lifecycle.complete(claim_one().lease)
    lifecycle.fail(claim_one().lease, PERMANENT)
    send_back(first, days=100)
    recovery.prune_jobs()
    lifecycle.retry(second)
    assert claimed_ids(new_worker()) == [second]


def test_the_children_of_a_pruned_job_live_on() -> None:
    parent = enqueue("tests.noop").id
    claimed = claim_one()
    child = JobContext(claimed, report=lambda report: None).add("tests.noop").id
    lifecycle.complete(claimed.lease)
    send_back(parent, days=100)
    assert recovery.prune_jobs() == 1
    assert Job.objects.get().pk == child
    assert Job.objects.get().parent_id is None


def test_however_many_there_are_they_go_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "PRUNE_BATCH", 10)
    for job in enqueue_many("tests.noop", [{}] * 25):
        lifecycle.cancel(job)
        send_back(job, days=100)
    assert recovery.prune_jobs(limit=20) == 20
    assert recovery.prune_jobs() == 5
    assert remaining() == set()


def test_empty_workflows_old_counters_and_departed_workers_go_too(settings: Settings) -> None:
    settings.JOBS = {"SUBMITTER_RATE": 100}
    old = database.now_minus(timedelta(days=31))
    with workflow("kept, it is young"):
        pass
    with workflow("kept, it has a job") as flow:
        flow.add("tests.noop")
    with workflow("gone"):
        pass
    Workflow.objects.exclude(name="kept, it is young").update(created_at=old)
    enqueue("tests.noop", submitter="ada")
    SubmissionWindow.objects.create(submitter="ada", minute="2001-01-01T00:00Z", count=3)
    new_worker(name="kept, alive")
    new_worker(name="kept, stopped lately", stopped_at=database.now_minus(timedelta(days=1)))
    new_worker(name="kept, disabled by a person", stopped_at=old, disabled=True)
    new_worker(name="gone", stopped_at=old)
    assert recovery.prune_the_rest() == 3
    assert all(name.startswith("kept") for name in Worker.objects.values_list("name", flat=True))
    assert all(name.startswith("kept") for name in Workflow.objects.values_list("name", flat=True))
    assert SubmissionWindow.objects.get().count == 1


def test_the_sweep_prunes(settings: Settings) -> None:
    send_back(completed(), days=31)
    assert recovery.sweep()
    assert remaining() == set()
