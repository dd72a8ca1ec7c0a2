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
from jobs.invariants import RULES, SHOWN, broken_rules
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Event, Job, JobTypeState, Prerequisite, Worker
from tests.conftest import Declare
from tests.support.queue.actors import claim_one, new_worker
from tests.support.queue.constraints import without_constraints
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
    update(job_id, status="failed", completed_at=None, last_error="again", lease_token=2)


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


Break = Callable[[Queue], object]

BREAKERS: list[tuple[str, Break]] = [
    ("a job has one of the six", lambda q: update(q.pending, status="sleeping")),
    ("a job is processing exactly", lambda q: update(q.processing, claim_expires_at=None)),
    ("a job is processing exactly", lambda q: update(q.processing, worker=None)),
    ("a job is processing exactly", lambda q: update(q.processing, lease_token=0)),
    ("a job is processing exactly", lambda q: update(q.processing, status="pending")),
    ("a job is processing exactly", lambda q: update(q.pending, claim_expires_at=Now())),
    ("a job is processing exactly", lambda q: update(q.pending, worker=Worker.objects.get())),
    ("a job is completed exactly", lambda q: update(q.completed, completed_at=None)),
    ("a job is completed exactly", lambda q: update(q.pending, completed_at=Now())),
    ("a job is cancelled exactly", lambda q: update(q.cancelled, cancelled_at=None)),
    ("a job is cancelled exactly", lambda q: update(q.pending, cancelled_at=Now())),
    ("a job is cancelled exactly", lambda q: update(q.pending, cancelled_because=q.failed)),
    ("a job has between 0 and", lambda q: update(q.pending, attempt_number=F("max_attempts") + 1)),
    ("a job has between 0 and", lambda q: update(q.pending, attempt_number=-1)),
    ("a job has between 0 and", lambda q: update(q.pending, max_attempts=0)),
    ("a job has between 0 and", lambda q: update(q.processing, progress_percent=101)),
    ("only a waiting job is blocked", lambda q: update(q.pending, blocked=True)),
    ("one active job per unique key", lambda q: update(q.waiting, unique_key="pending")),
    ("a failed job says why", lambda q: update(q.failed, last_error="")),
    ("a failed job says why", lambda q: attempts(q.failed, outcome="completed")),
    ("a failed job says why", lambda q: update(q.lost, max_attempts=2)),
    ("a failed job says why", lambda q: update(q.pending, status="failed", last_error="never ran")),
    ("a completed job was completed", lambda q: update(q.pending, status="completed", completed_at=Now())),
    ("a completed job was completed", lambda q: update(q.completed, lease_token=F("lease_token") + 1)),
    ("nothing runs after its completion", lambda q: run_again(q.completed)),
    ("a processing job has exactly one", lambda q: attempts(q.processing, outcome="lost", finished_at=Now())),
    ("a processing job has exactly one", lambda q: attempts(q.processing, number=2)),
    ("a processing job has exactly one", lambda q: attempts(q.processing, worker_id="another")),
    ("a processing job has exactly one", lambda q: second_attempt(q.processing)),
    ("a job that is not processing", lambda q: attempts(q.completed, outcome="running", finished_at=None)),
    ("an attempt is over exactly", lambda q: attempts(q.completed, finished_at=None)),
    ("an attempt is over exactly", lambda q: attempts(q.processing, finished_at=Now())),
    ("no attempt has a token beyond", lambda q: attempts(q.completed, token=7)),
    ("no attempt has a token beyond", lambda q: update(q.lost, lease_token=F("lease_token") - 1)),
    ("every claim since the job", lambda q: update(q.completed, attempt_number=0)),
    ("every claim since the job", lambda q: update(q.pending, attempt_number=1)),
    ("every claim since the job", lambda q: attempts(q.released, outcome="failed")),
    ("every recovery and every release", lambda q: forget_events(q.lost)),
    ("every recovery and every release", lambda q: forget_events(q.released)),
    ("every cancelled job has the event", lambda q: forget_events(q.cancelled)),
    ("a worker runs only types", lambda q: Worker.objects.update(job_types=["tests.other"])),
    ("no type has more live leases", exceed_limit),
    (
        "a pending or processing job has no unmet",
        lambda q: update(q.blocked, status="pending", blocked=False),
    ),
    ("a blocked job has a prerequisite", lambda q: complete_unnoticed(q.needed)),
    ("a blocked job has a prerequisite", lambda q: update(q.waiting, blocked=True)),
    ("a job that needs a failed", lambda q: update(q.needed, status="cancelled", cancelled_at=Now())),
    ("a job that others need knows", lambda q: update(q.needed, has_dependants=False)),
    ("what a job's end has cancelled", lambda q: update(q.doomed, cancelled_because=q.pending)),
    ("prerequisites of blocked jobs", make_circle),
]


@pytest.mark.parametrize(
    ("rule", "break_it"), BREAKERS, ids=[f"{rule}-{index}" for index, (rule, _) in enumerate(BREAKERS)]
)
def test_a_rule_notices_what_breaks_it(rule: str, break_it: Break, queue: Queue, declare: Declare) -> None:
    declare("tests.one_at_a_time", concurrency=1)
    assert broken_rules() == []
    with without_constraints():
        break_it(queue)
        found = broken_rules()
        assert rule in {violation.rule[: len(rule)] for violation in found}
        assert {str(violation) for violation in found} == set(broken_at_a_glance())
    assert broken_rules() == []


def test_every_rule_is_shown_to_fail() -> None:
    own = [text for text, check in RULES.items() if check.__module__ == "jobs.invariants"]
    unshown = [text for text in own if not any(text.startswith(start) for start, _ in BREAKERS)]
    assert unshown == []


def test_a_prerequisite_that_starts_over_does_not_unmake_what_has_begun(queue: Queue) -> None:
    rule = "a pending or processing job has no unmet"
    with without_constraints():
        update(queue.blocked, status="pending", blocked=False, run_at=now_minus(timedelta(seconds=1)))
        assert rule in str(broken_rules())
        Event.objects.create(job_id=queue.needed, kind="reconciled")
        assert rule not in str(broken_rules())
        update(queue.blocked, run_at=now_plus(timedelta(seconds=1)))
        assert rule in str(broken_rules())


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
        rule = "a job has between 0 and max_attempts attempts, and progress between 0 and 100"
        assert len([violation for violation in broken_rules() if violation.rule == rule]) == SHOWN


def test_a_violation_names_the_rule_and_the_job(queue: Queue) -> None:
    with without_constraints():
        update(queue.pending, blocked=True)
        assert [str(violation) for violation in broken_rules()] == [
            f"only a waiting job is blocked: tests.noop {queue.pending}"
        ]
