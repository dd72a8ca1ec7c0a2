"""Jobs that add jobs while they run: bound to their lease, found again by key, part of the same workflow."""

from typing import Any

import pytest
from django.db import transaction

from jobs import HIGH, JobContext, LeaseLost, QueueFull, enqueue, lifecycle
from jobs import workflow as new_workflow
from jobs.lifecycle import FailureReport
from jobs.models import Job, Status
from tests.support.queue.actors import Background, claim_one, expire, new_worker, race, status_of, stored
from tests.support.queue.flows import PERMANENT, claim_named, complete, fail, id_of, statuses

pytestmark = pytest.mark.django_db


def start(worker: Any = None) -> JobContext:
    """The next job, as its handler sees it."""
    return JobContext(claim_one(worker), report=lambda report: None)


def test_a_child_inherits_from_its_parent() -> None:
    with new_workflow("w", correlation_id="c-7") as flow:
        parent = flow.add("tests.noop", name="parent", priority=HIGH, submitter="ada")
    child = start().add("tests.noop", name="child")
    after = stored(child)
    assert (after.parent_id, after.workflow_id, after.correlation_id) == (parent.id, flow.record.id, "c-7")
    assert (after.priority, after.submitter, after.status) == (HIGH, "ada", Status.PENDING)
    assert list(Job.objects.get(pk=parent.id).children.all()) == [child]


def test_a_job_outside_a_workflow_may_have_children_too() -> None:
    parent = enqueue("tests.noop", name="parent")
    context = start()
    first = context.add("tests.noop", name="first", priority=9)
    context.add("tests.noop", name="second", after=[first])
    lifecycle.complete(context.lease)
    assert (stored(first).parent_id, stored(first).workflow_id, stored(first).priority) == (
        parent.id,
        None,
        9,
    )
    complete("first")
    complete("second")


def test_children_with_a_key_are_found_again_by_the_next_attempt() -> None:
    enqueue("tests.noop", name="parent")
    first = start()
    children = [first.add("tests.noop", name=f"chunk {n}", key=f"chunk {n}") for n in range(3)]
    assert all(child.created for child in children)
    lifecycle.complete(claim_one().lease)  # one chunk is done when the parent is lost
    expire(first.id)
    lifecycle.recover_expired()
    lifecycle.change_priority(first.id, -1)
    again = start()
    assert again.attempt == 2
    found = [again.add("tests.noop", name=f"chunk {n}", key=f"chunk {n}") for n in range(4)]
    assert [child.id for child in found[:3]] == [child.id for child in children]
    assert [child.created for child in found] == [False, False, False, True]
    assert Job.objects.count() == 5
    assert status_of(children[0]) == Status.COMPLETED


def test_a_key_belongs_to_one_parent() -> None:
    enqueue("tests.noop", name="one")
    enqueue("tests.noop", name="two")
    one, two = start(), start()
    assert one.add("tests.noop", key="k").id != two.add("tests.noop", key="k").id


def test_without_a_key_every_call_adds_a_child() -> None:
    enqueue("tests.noop", name="parent")
    context = start()
    assert context.add("tests.noop").id != context.add("tests.noop").id


def test_a_child_that_was_added_is_found_again_whatever_has_become_of_its_prerequisites() -> None:
    enqueue("tests.noop", name="parent")
    context = start()
    first = context.add("tests.noop", name="first", key="first")
    second = context.add("tests.noop", name="second", key="second", after=[first])
    fail("first")
    assert status_of(second) == Status.CANCELLED
    assert context.add("tests.noop", name="first", key="first").id == first.id
    again = context.add("tests.noop", name="second", key="second", after=[first])
    assert (again.id, again.created) == (second.id, False)


def test_a_child_that_was_added_is_found_again_in_a_full_queue(settings: Any) -> None:
    enqueue("tests.noop", name="parent")
    context = start()
    child = context.add("tests.noop", name="child", key="child")
    settings.JOBS = {"MAX_DEPTH": 2}
    assert context.add("tests.noop", name="child", key="child").id == child.id
    with pytest.raises(QueueFull):
        context.add("tests.noop", name="other", key="other")


@pytest.mark.parametrize("end", ["completed", "failed", "recovered", "cancelled", "claimed again"])
def test_a_worker_that_has_lost_the_job_adds_nothing(end: str) -> None:
    job = enqueue("tests.noop", name="parent")
    worker = new_worker()
    context = start(worker)
    match end:
        case "completed":
            lifecycle.complete(context.lease)
        case "failed":
            lifecycle.fail(context.lease, FailureReport("ValueError", "no"))
        case "cancelled":
            lifecycle.cancel(job.id)
        case _:
            expire(job.id)
            lifecycle.recover_expired()
    if end == "claimed again":
        start(worker)
    with pytest.raises(LeaseLost):
        context.add("tests.noop", name="child", key="k")
    with pytest.raises(LeaseLost):
        context.add("tests.noop", name="child")
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_child_that_waited_for_the_recovery_of_its_parent_is_refused() -> None:
    job = enqueue("tests.noop", name="parent")
    context = start()
    expire(job.id)
    with transaction.atomic():
        lifecycle.recover_expired()
        addition = Background(lambda: context.add("tests.noop", name="child"))
        addition.wait_until_blocked()
    assert isinstance(addition.outcome(), LeaseLost)
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_same_child_added_from_several_threads_is_added_once() -> None:
    enqueue("tests.noop", name="parent")
    context = start()
    children = race([lambda: context.add("tests.noop", name="child", key="k")] * 5)
    assert len({child.id for child in children}) == 1
    assert sorted(child.created for child in children) == [False] * 4 + [True]


def test_children_may_wait_for_each_other_and_join() -> None:
    with new_workflow("w") as flow:
        flow.add("tests.noop", name="plan")
    plan = start()
    parts = [plan.add("tests.noop", name=f"part {n}", key=f"part {n}") for n in range(3)]
    plan.add("tests.noop", name="join", key="join", after=parts)
    lifecycle.complete(plan.lease)
    complete("part 0", "part 1", "part 2")
    complete("join")
    assert set(Job.objects.values_list("workflow", flat=True)) == {flow.record.id}


def test_a_child_may_wait_for_its_parent() -> None:
    parent = enqueue("tests.noop", name="parent")
    context = start()
    context.add("tests.noop", name="child", after=[parent])
    claim_named()
    lifecycle.complete(context.lease)
    complete("child")
    assert statuses() == {"parent": "completed", "child": "completed"}


def test_the_failure_of_a_parent_does_not_concern_children_that_do_not_wait_for_it() -> None:
    parent = enqueue("tests.noop", name="parent")
    context = start()
    context.add("tests.noop", name="free")
    context.add("tests.noop", name="bound", after=[parent])
    lifecycle.fail(context.lease, PERMANENT)
    assert statuses() == {"parent": "failed", "free": "pending", "bound": "cancelled"}
    assert stored(id_of("bound")).cancelled_because == parent.id


def test_a_child_whose_unique_key_is_taken_is_the_job_that_has_it() -> None:
    other = enqueue("tests.noop", name="other", unique_key="k", delay=60)
    enqueue("tests.noop", name="parent")
    child = start().add("tests.noop", name="child", unique_key="k")
    assert (child.id, child.created) == (other.id, False)
