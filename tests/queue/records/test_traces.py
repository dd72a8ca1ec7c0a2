"""Every transition leaves its trace: an attempt row per claim, an event row for whatever else happens to a job."""

import pytest

from jobs import PermanentFailure, enqueue, enqueue_many, lifecycle, workflow
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Event, Job, Status
from jobs.signals import Transition, jobs_changed
from tests.support.queue.actors import (
    claim_one,
    events_of,
    expire,
    new_worker,
    outcomes_of,
    status_of,
    stored,
)

pytestmark = pytest.mark.django_db


def attempt_of(job_id: str) -> Attempt:
    return Attempt.objects.get(job_id=job_id)


def test_a_claim_opens_an_attempt() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    lease = claim_one(worker).lease
    attempt = attempt_of(job.id)
    assert (attempt.number, attempt.token, attempt.outcome) == (1, lease.token, "running")
    assert (attempt.worker_id, attempt.worker_name) == (worker.pk, worker.name)
    assert attempt.finished_at is None
    assert events_of(job.id) == []


def test_completion_closes_the_attempt() -> None:
    job = enqueue("tests.noop")
    lifecycle.complete(claim_one().lease)
    attempt = attempt_of(job.id)
    assert attempt.outcome == "completed"
    assert attempt.finished_at is not None
    assert attempt.started_at <= attempt.finished_at
    assert events_of(job.id) == []
    after = stored(job)
    assert (after.status, after.progress_percent) == (Status.COMPLETED, 100)
    assert (after.worker_id, after.claim_expires_at) == (None, None)
    assert after.completed_at is not None
    assert after.processed_by_worker_name == attempt.worker_name


def test_a_failure_closes_the_attempt_with_what_went_wrong() -> None:
    job = enqueue("tests.noop")
    try:
        raise KeyError("colour")
    except KeyError as error:
        failure = FailureReport.of(error)
    lifecycle.fail(claim_one().lease, failure)
    attempt = attempt_of(job.id)
    assert (attempt.outcome, attempt.error_type, attempt.error) == ("failed", "KeyError", "'colour'")
    assert "test_traces.py" in attempt.traceback
    assert stored(job).last_error == "KeyError: 'colour'"
    assert stored(job).processed_by_worker_name == attempt.worker_name


def test_a_release_is_not_counted_and_says_why() -> None:
    job = enqueue("tests.noop")
    lifecycle.release([claim_one().lease], reason="the worker drains")
    after = stored(job)
    assert (after.status, after.attempt_number, after.last_error) == (Status.PENDING, 0, "")
    assert outcomes_of(job.id) == ["released"]
    (event,) = Event.objects.filter(job=job)
    assert (event.kind, event.detail) == ("released", "the worker drains")


def test_a_recovery_is_counted_and_says_why() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    claim_one(worker)
    assert lifecycle.recover_lost(worker.pk, "its process 7 no longer exists") == [job.id]
    after = stored(job)
    assert (after.status, after.attempt_number) == (Status.PENDING, 1)
    assert "process 7" in after.last_error
    assert outcomes_of(job.id) == ["lost"]
    (event,) = Event.objects.filter(job=job)
    assert event.kind == "recovered"
    assert "process 7" in event.detail


def test_a_cancellation_names_who_and_why_and_closes_a_running_attempt() -> None:
    waiting, running = enqueue("tests.noop", delay=60), enqueue("tests.noop")
    claim_one()
    lifecycle.cancel([waiting.id, running.id], actor="ada", reason="not needed")
    for job in (waiting, running):
        (event,) = Event.objects.filter(job=job)
        assert (event.kind, event.actor, event.detail) == ("cancelled", "ada", "not needed")
        assert stored(job).cancelled_at is not None
    assert outcomes_of(running.id) == ["cancelled"]
    assert outcomes_of(waiting.id) == []


def test_a_whole_life_can_be_read_afterwards() -> None:
    job = enqueue("tests.noop", max_attempts=2)
    lifecycle.release([claim_one().lease])
    claim_one()
    expire(job.id)
    lifecycle.recover_expired()
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no"))
    assert status_of(job) == Status.FAILED
    lifecycle.retry(job.id, actor="ada")
    lifecycle.complete(claim_one().lease)
    assert outcomes_of(job.id) == ["released", "lost", "failed", "completed"]
    assert list(Attempt.objects.filter(job=job).order_by("token").values_list("number", flat=True)) == [
        1,
        1,
        2,
        1,
    ]
    assert events_of(job.id) == ["released", "recovered", "retried"]


def test_changes_by_hand_leave_an_event() -> None:
    job = enqueue("tests.noop", delay=60)
    lifecycle.change_priority(job.id, 3, actor="ada")
    lifecycle.run_now(job.id, actor="eve")
    first, second = Event.objects.filter(job=job)
    assert (first.kind, first.actor) == ("changed", "ada")
    assert "3" in first.detail.split()
    assert (second.kind, second.actor) == ("changed", "eve")
    assert second.detail not in ("", first.detail)


def test_what_a_failure_cancels_and_a_retry_revives_leaves_events() -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, FailureReport.of(PermanentFailure("no"), permanent=True))
    lifecycle.retry(first.id)
    assert events_of(second.id) == ["cancelled", "revived"]
    assert first.id in Event.objects.filter(job=second).first().detail  # type: ignore[union-attr]


def test_other_apps_hear_of_every_transition_inside_the_transaction() -> None:
    heard: list[tuple[str, str]] = []

    def listen(transitions: list[Transition], **_: object) -> None:
        heard.extend((transition.before, transition.after) for transition in transitions)
        assert {status_of(transition.job_id) for transition in transitions} == {transitions[-1].after}

    jobs_changed.connect(listen)
    try:
        job = enqueue("tests.noop")
        lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no", permanent=True))
        lifecycle.retry(job.id)
        lifecycle.complete(claim_one().lease)
    finally:
        jobs_changed.disconnect(listen)
    assert heard == [
        ("pending", "processing"),
        ("processing", "failed"),
        ("failed", "pending"),
        ("pending", "processing"),
        ("processing", "completed"),
    ]


def test_a_listener_that_raises_rolls_the_change_back() -> None:
    enqueue_many("tests.noop", [{}] * 2)
    leases = [claimed.lease for claimed in lifecycle.claim(new_worker(), 2)]

    def refuse(**_: object) -> None:
        raise RuntimeError("the shelf is full")

    jobs_changed.connect(refuse)
    try:
        with pytest.raises(RuntimeError, match="shelf"):
            lifecycle.complete_many([(lease, None) for lease in leases])
    finally:
        jobs_changed.disconnect(refuse)
    assert set(Job.objects.values_list("status", flat=True)) == {Status.PROCESSING}
    assert lifecycle.complete_many([(lease, None) for lease in leases]) == set()
