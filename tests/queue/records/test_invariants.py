"""jobs.invariants: each rule is silent on a healthy queue and notices the row that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from jobs import enqueue, lifecycle, optional, workflow
from jobs.database import now_minus, now_plus
from jobs.invariants import ON_DISK, RULES, SHOWN, broken_rules, code_of
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Event, Job, JobTypeState, Prerequisite, Worker
from tests.conftest import Declare
from tests.support.queue.actors import claim_one, new_worker
from tests.support.queue.constraints import undone, without_constraints
from tests.support.queue.quick_look import broken_at_a_glance

pytestmark = pytest.mark.django_db


@dataclass
class Queue:
    """One healthy job in each state."""

    waiting: str
    pending: str
    processing: str
    completed: str
    failed: str
    lost: str
    cancelled: str
    released: str
    needed: str
    blocked: str
    doomed: str


@pytest.fixture
def queue() -> Queue:
    worker = new_worker()
    ids: dict[str, str] = {}
    for name in ("completed", "failed", "lost", "released", "processing"):
        ids[name] = enqueue("tests.noop", max_attempts=1).id
        lease = claim_one(worker).lease
        if name == "completed":
            lifecycle.complete(lease)
        elif name == "failed":
            lifecycle.fail(lease, FailureReport("ValueError", "no", permanent=True))
        elif name == "lost":
            lifecycle.recover_lost(worker.pk, "it died")
        elif name == "released":
            lifecycle.release([lease])
            Job.objects.filter(pk=lease.job_id).update(priority=99)
    ids["waiting"] = enqueue("tests.noop", delay=60).id
    ids["pending"] = enqueue("tests.noop", unique_key="pending").id
    ids["cancelled"] = enqueue("tests.noop").id
    lifecycle.cancel(ids["cancelled"])
    with workflow("healthy") as flow:
        needed = flow.add("tests.noop", delay=60)
        ids["needed"] = needed.id
        ids["blocked"] = flow.add("tests.noop", after=[needed]).id
        withdrawn = flow.add("tests.noop", delay=60)
        ids["doomed"] = flow.add("tests.noop", after=[withdrawn, optional(needed)]).id
        lifecycle.cancel(withdrawn.id)
    return Queue(**ids)


def update(job_id: str, **changes: object) -> None:
    Job.objects.filter(pk=job_id).update(**changes)


def attempts(job_id: str, **changes: object) -> None:
    Attempt.objects.filter(job_id=job_id).update(**changes)


def forget_events(job_id: str) -> None:
    Event.objects.filter(job_id=job_id).delete()


def run_again(job_id: str) -> None:
    """As if a completed job had been claimed and failed after its completion."""
    Attempt.objects.create(
        job_id=job_id, token=2, number=1, worker_id="w", worker_name="w", outcome="failed", finished_at=Now()
    )
    update(job_id, status="failed", completed_at=None, claimed_at=None, last_error="again", lease_token=2)


def second_attempt(job_id: str) -> None:
    Attempt.objects.create(job_id=job_id, token=0, number=0, worker_id="w", worker_name="w")


def complete_unnoticed(job_id: str) -> None:
    update(job_id, status="completed", completed_at=Now(), progress_percent=100)
    Attempt.objects.create(
        job_id=job_id,
        token=0,
        number=0,
        worker_id="w",
        worker_name="w",
        outcome="completed",
        finished_at=Now(),
    )
    update(job_id, attempt_number=1)


def exceed_limit(queue: Queue) -> None:
    lease = {
        "worker": Worker.objects.get(),
        "claimed_at": Now(),
        "claim_expires_at": now_plus(timedelta(minutes=1)),
    }
    update(queue.processing, type="tests.one_at_a_time")
    update(queue.pending, type="tests.one_at_a_time", status="processing", lease_token=1, **lease)


def make_circle(queue: Queue) -> None:
    update(queue.needed, blocked=True)
    Prerequisite.objects.create(job_id=queue.needed, needs_id=queue.blocked)


def codes() -> list[str]:
    return [violation.code for violation in broken_rules()]


Break = Callable[[Queue], object]

BREAKERS: list[tuple[str, Break]] = [
    ("jobs.known_status", lambda q: update(q.pending, status="sleeping")),
    ("jobs.lease_fields", lambda q: update(q.processing, claim_expires_at=None)),
    ("jobs.lease_fields", lambda q: update(q.processing, worker=None)),
    ("jobs.lease_fields", lambda q: update(q.processing, lease_token=0)),
    ("jobs.lease_fields", lambda q: update(q.processing, status="pending")),
    ("jobs.lease_fields", lambda q: update(q.pending, claim_expires_at=Now())),
    ("jobs.lease_fields", lambda q: update(q.pending, worker=Worker.objects.get())),
    ("jobs.stale_marks", lambda q: update(q.failed, claimed_at=Now())),
    ("jobs.stale_marks", lambda q: update(q.released, claimed_at=Now())),
    ("jobs.stale_marks", lambda q: update(q.completed, last_error="ValueError: once")),
    ("jobs.completed_at", lambda q: update(q.completed, completed_at=None)),
    ("jobs.completed_at", lambda q: update(q.pending, completed_at=Now())),
    ("jobs.cancelled_at", lambda q: update(q.cancelled, cancelled_at=None)),
    ("jobs.cancelled_at", lambda q: update(q.pending, cancelled_at=Now())),
    ("jobs.cancelled_at", lambda q: update(q.pending, cancelled_because=q.failed)),
    ("jobs.bounds", lambda q: update(q.pending, attempt_number=F("max_attempts") + 1)),
    ("jobs.bounds", lambda q: update(q.pending, attempt_number=-1)),
    ("jobs.bounds", lambda q: update(q.pending, max_attempts=0)),
    ("jobs.bounds", lambda q: update(q.processing, progress_percent=101)),
    ("jobs.blocked_only_waiting", lambda q: update(q.pending, blocked=True)),
    ("jobs.unique_active", lambda q: update(q.waiting, unique_key="pending")),
    ("jobs.failed_with_reason", lambda q: update(q.failed, last_error="")),
    ("jobs.failed_with_reason", lambda q: attempts(q.failed, outcome="completed")),
    ("jobs.failed_with_reason", lambda q: update(q.lost, max_attempts=2)),
    ("jobs.failed_with_reason", lambda q: update(q.pending, status="failed", last_error="never ran")),
    ("jobs.completed_by_somebody", lambda q: update(q.pending, status="completed", completed_at=Now())),
    ("jobs.completed_by_somebody", lambda q: update(q.completed, lease_token=F("lease_token") + 1)),
    ("jobs.ran_again", lambda q: run_again(q.completed)),
    ("jobs.running_attempt", lambda q: attempts(q.processing, outcome="lost", finished_at=Now())),
    ("jobs.running_attempt", lambda q: attempts(q.processing, number=2)),
    ("jobs.running_attempt", lambda q: attempts(q.processing, worker_id="another")),
    ("jobs.running_attempt", lambda q: second_attempt(q.processing)),
    ("jobs.no_orphaned_attempt", lambda q: attempts(q.completed, outcome="running", finished_at=None)),
    ("jobs.finished_at", lambda q: attempts(q.completed, finished_at=None)),
    ("jobs.finished_at", lambda q: attempts(q.processing, finished_at=Now())),
    ("jobs.token_monotonic", lambda q: attempts(q.completed, token=7)),
    ("jobs.token_monotonic", lambda q: update(q.lost, lease_token=F("lease_token") - 1)),
    ("jobs.attempts_counted", lambda q: update(q.completed, attempt_number=0)),
    ("jobs.attempts_counted", lambda q: update(q.pending, attempt_number=1)),
    ("jobs.attempts_counted", lambda q: attempts(q.released, outcome="failed")),
    ("jobs.traces", lambda q: forget_events(q.lost)),
    ("jobs.traces", lambda q: forget_events(q.released)),
    ("jobs.cancelled_with_trace", lambda q: forget_events(q.cancelled)),
    ("jobs.foreign_type", lambda q: Worker.objects.update(job_types=["tests.other"])),
    ("jobs.over_limit", exceed_limit),
    (
        "jobs.ran_too_early",
        lambda q: update(q.blocked, status="pending", blocked=False),
    ),
    ("jobs.stuck", lambda q: complete_unnoticed(q.needed)),
    ("jobs.stuck", lambda q: update(q.waiting, blocked=True)),
    ("jobs.doomed", lambda q: update(q.needed, status="cancelled", cancelled_at=Now())),
    ("jobs.unaware", lambda q: update(q.needed, has_dependants=False)),
    ("jobs.needlessly_cancelled", lambda q: update(q.doomed, cancelled_because=q.pending)),
    ("jobs.circular", make_circle),
]


def test_each_rule_notices_what_breaks_it(queue: Queue, declare: Declare) -> None:
    declare("tests.one_at_a_time", concurrency=1)
    assert broken_rules() == []
    missed = []
    with without_constraints():
        for number, (rule, break_it) in enumerate(BREAKERS):
            with undone():
                break_it(queue)
                found = broken_rules()
                if rule not in {violation.code for violation in found}:
                    missed.append(f"{number}: {rule}")
                assert {str(violation) for violation in found} == set(broken_at_a_glance())
    assert missed == []


def test_every_rule_is_shown_to_fail() -> None:
    own = {code_of(check) for check in RULES.values() if check.__module__ == "jobs.invariants"}
    assert own == {rule for rule, _ in BREAKERS}


def test_no_two_rules_of_the_queue_have_the_same_code() -> None:
    every = [code_of(check) for check in (RULES | ON_DISK).values()]
    own = [code for code in every if code.startswith("jobs.")]
    assert len(own) == len(set(own))


def test_a_prerequisite_that_starts_over_does_not_unmake_what_has_begun(queue: Queue) -> None:
    rule = "jobs.ran_too_early"
    with without_constraints():
        update(queue.blocked, status="pending", blocked=False, run_at=now_minus(timedelta(seconds=1)))
        assert rule in codes()
        Event.objects.create(job_id=queue.needed, kind="reconciled")
        assert rule not in codes()
        update(queue.blocked, run_at=now_plus(timedelta(seconds=1)))
        assert rule in codes()


def test_a_lowered_limit_is_not_a_broken_rule(declare: Declare) -> None:
    declare("tests.two", concurrency=2)
    worker = new_worker()
    for _ in range(2):
        enqueue("tests.two")
    assert len(lifecycle.claim(worker, 2)) == 2
    JobTypeState.objects.update_or_create(name="tests.two", defaults={"concurrency": 1})
    assert broken_rules() == []


def test_a_rule_that_is_broken_a_thousand_times_shows_a_few(queue: Queue) -> None:
    for _ in range(SHOWN + 5):
        enqueue("tests.noop")
    with without_constraints():
        Job.objects.update(progress_percent=-1)
        assert codes().count("jobs.bounds") == SHOWN


def test_a_violation_names_the_rule_and_the_job(queue: Queue) -> None:
    with without_constraints():
        update(queue.pending, blocked=True)
        (violation,) = broken_rules()
    assert (violation.code, violation.subject) == ("jobs.blocked_only_waiting", f"tests.noop {queue.pending}")
    assert str(violation) == f"{violation.rule}: {violation.subject}"
    assert violation.rule in RULES
