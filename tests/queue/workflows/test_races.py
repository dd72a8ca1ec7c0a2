"""Workflows under race: prerequisites that end at the same moment, or while a dependant is being added."""

from collections.abc import Callable
from functools import partial

import pytest
from django.db import transaction

from jobs import EnqueueRefused, Flow, LeaseLost, lifecycle, orchestrator
from jobs import workflow as new_workflow
from jobs.models import Job, Status, Workflow
from tests.support.queue.actors import Background, claim_one, race, race_outcomes, status_of
from tests.support.queue.flows import PERMANENT, claim_named, complete, id_of, statuses

pytestmark = pytest.mark.django_db(transaction=True)


def together(*actions: Callable[[], object]) -> None:
    """At the same moment; one of them may be refused, if only by LeaseLost."""
    for outcome in race_outcomes(actions):
        assert not isinstance(outcome, BaseException) or isinstance(outcome, LeaseLost), outcome


def test_two_prerequisites_that_complete_at_the_same_moment_release_their_dependant() -> None:
    with new_workflow("w") as flow:
        one, two = flow.add("tests.noop", name="one"), flow.add("tests.noop", name="two")
        flow.add("tests.noop", name="after", after=[one, two])
    first, second = claim_named("one", "two")
    with transaction.atomic():
        lifecycle.complete(first)
        other = Background(partial(lifecycle.complete, second))
        other.wait_until_blocked()
        assert statuses(["after"]) == {"after": "waiting"}
    other.result()
    assert statuses() == {"one": "completed", "two": "completed", "after": "pending"}


def test_of_two_prerequisites_at_the_same_moment_one_completes_and_one_fails() -> None:
    with new_workflow("w") as flow:
        one, two = flow.add("tests.noop", name="one"), flow.add("tests.noop", name="two")
        flow.add("tests.noop", name="after", after=[one, two])
    first, second = claim_named("one", "two")
    with transaction.atomic():
        lifecycle.complete(first)
        other = Background(partial(lifecycle.fail, second, PERMANENT))
        other.wait_until_blocked()
    assert other.result() == Status.FAILED
    assert statuses() == {"one": "completed", "two": "failed", "after": "cancelled"}


def test_however_eight_prerequisites_race_their_dependant_runs_once() -> None:
    names = [f"part {n}" for n in range(8)]
    with new_workflow("w") as flow:
        parts = [flow.add("tests.noop", name=name) for name in names]
        flow.add("tests.noop", name="join", after=parts)
    race([partial(lifecycle.complete, lease) for lease in claim_named(*names)])
    complete("join")
    assert set(statuses().values()) == {"completed"}


def test_a_dependant_added_while_its_prerequisite_completes_is_not_forgotten() -> None:
    with new_workflow("w") as flow:
        first = flow.add("tests.noop", name="first")
    (lease,) = claim_named("first")
    with transaction.atomic():
        flow.add("tests.noop", name="second", after=[first])
        completion = Background(partial(lifecycle.complete, lease))
        completion.wait_until_blocked()
    completion.result()
    assert statuses() == {"first": "completed", "second": "pending"}


def test_a_dependant_that_waited_for_the_completion_of_its_prerequisite_is_pending_at_once() -> None:
    with new_workflow("w") as flow:
        first = flow.add("tests.noop", name="first")
    (lease,) = claim_named("first")
    with transaction.atomic():
        lifecycle.complete(lease)
        addition = Background(partial(flow.add, "tests.noop", name="second", after=[first]))
        addition.wait_until_blocked()
    assert status_of(addition.result()) == Status.PENDING


def test_a_dependant_added_while_its_prerequisite_fails_is_cancelled_or_refused() -> None:
    with new_workflow("w") as flow:
        first = flow.add("tests.noop", name="first")
    (lease,) = claim_named("first")
    with transaction.atomic():
        lifecycle.fail(lease, PERMANENT)
        addition = Background(partial(flow.add, "tests.noop", name="second", after=[first]))
        addition.wait_until_blocked()
    assert isinstance(addition.outcome(), EnqueueRefused)
    assert statuses() == {"first": "failed"}


def test_dependants_that_are_added_while_their_prerequisite_completes_all_run() -> None:
    with new_workflow("w") as flow:
        first = flow.add("tests.noop", name="first")
    (lease,) = claim_named("first")

    def add(n: int) -> None:
        Flow(Workflow.objects.get(pk=flow.record.pk)).add("tests.noop", name=f"dependant {n}", after=[first])

    race(
        [
            partial(add, 0),
            partial(add, 1),
            partial(lifecycle.complete, lease),
            partial(add, 2),
            partial(add, 3),
        ]
    )
    complete(*(f"dependant {n}" for n in range(4)))
    assert set(statuses().values()) == {"completed"}


def test_a_retry_that_races_the_failure_of_the_other_prerequisite_leaves_nothing_stuck() -> None:
    with new_workflow("w") as flow:
        one, two = flow.add("tests.noop", name="one"), flow.add("tests.noop", name="two")
        flow.add("tests.noop", name="after", after=[one, two])
    first, second = claim_named("one", "two")
    lifecycle.fail(first, PERMANENT)
    together(partial(lifecycle.retry, one.id), partial(lifecycle.fail, second, PERMANENT))
    assert statuses(["one", "two"]) == {"one": "pending", "two": "failed"}
    assert statuses(["after"]) == {"after": "cancelled"}
    lifecycle.retry(two.id)
    assert statuses(["after"]) == {"after": "waiting"}


def test_a_chain_of_cancellations_that_races_completions_ends_consistently() -> None:
    with new_workflow("w") as flow:
        left, right = flow.add("tests.noop", name="left"), flow.add("tests.noop", name="right")
        middle = flow.add("tests.noop", name="middle", after=[left, right])
        flow.add("tests.noop", name="last", after=[middle, right])
    first, second = claim_named("left", "right")
    together(
        partial(lifecycle.complete, first),
        partial(lifecycle.cancel, right.id),
        partial(lifecycle.complete, second),
    )
    after = statuses()
    assert after["left"] == "completed"
    if after["right"] == "cancelled":
        assert (after["middle"], after["last"]) == ("cancelled", "cancelled")
    else:
        assert (after["right"], after["middle"], after["last"]) == ("completed", "pending", "waiting")


def test_a_repair_that_races_the_regular_advance_promotes_once() -> None:
    with new_workflow("w") as flow:
        first = flow.add("tests.noop", name="first")
        flow.add("tests.noop", name="second", after=[first])
    lease = claim_one().lease
    together(partial(lifecycle.complete, lease), orchestrator.repair, orchestrator.repair)
    assert statuses() == {"first": "completed", "second": "pending"}
    assert Job.objects.filter(pk=id_of("second"), attempt_number=0).exists()
