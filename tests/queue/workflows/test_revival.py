"""Retrying a failed job revives exactly what its failure has cancelled."""

import pytest

from jobs import enqueue, lifecycle, optional
from jobs import workflow as new_workflow
from jobs.exceptions import TransitionRefused
from jobs.models import Job, Status
from tests.support.queue.actors import events_of, stored
from tests.support.queue.flows import PERMANENT, claim_named, complete, fail, id_of, statuses

pytestmark = pytest.mark.django_db


def chain_and_fork() -> None:
    """a → b → c, and a → d; x stands alone."""
    with new_workflow("w") as flow:
        a = flow.add("tests.noop", name="a")
        b = flow.add("tests.noop", name="b", after=[a])
        flow.add("tests.noop", name="c", after=[b])
        flow.add("tests.noop", name="d", after=[a])
        flow.add("tests.noop", name="x", delay=3600)


def test_a_retry_revives_the_whole_chain() -> None:
    chain_and_fork()
    fail("a")
    assert statuses() == {"a": "failed", "b": "cancelled", "c": "cancelled", "d": "cancelled", "x": "waiting"}
    assert sorted(lifecycle.retry(id_of("a"))) == sorted(id_of(name) for name in "abcd")
    assert statuses() == {"a": "pending", "b": "waiting", "c": "waiting", "d": "waiting", "x": "waiting"}
    assert all(stored(id_of(name)).cancelled_because == "" for name in "bcd")
    assert [events_of(id_of(name)) for name in "bcd"] == [["cancelled", "revived"]] * 3
    complete("a")
    complete("b", "d")
    complete("c")


def test_a_job_that_a_person_cancelled_is_not_revived() -> None:
    chain_and_fork()
    lifecycle.cancel(id_of("d"))
    fail("a")
    lifecycle.retry(id_of("a"))
    assert statuses() == {"a": "pending", "b": "waiting", "c": "waiting", "d": "cancelled", "x": "waiting"}


def test_what_another_failure_cancelled_is_not_revived() -> None:
    chain_and_fork()
    with new_workflow("other") as flow:
        flow.add("tests.noop", name="f", after=[flow.add("tests.noop", name="e")])
    for lease in claim_named("a", "e"):
        lifecycle.fail(lease, PERMANENT)
    lifecycle.retry(id_of("a"))
    assert statuses(["e", "f"]) == {"e": "failed", "f": "cancelled"}


def test_a_retry_of_a_cancelled_prerequisite_revives_what_its_cancellation_cancelled() -> None:
    chain_and_fork()
    lifecycle.cancel(id_of("b"))
    assert statuses(["b", "c"]) == {"b": "cancelled", "c": "cancelled"}
    lifecycle.retry(id_of("b"))
    assert statuses(["b", "c"]) == {"b": "waiting", "c": "waiting"}
    complete("a")
    complete("b", "d")
    complete("c")


def test_a_failure_in_the_middle_is_retried_alone() -> None:
    chain_and_fork()
    complete("a")
    b, d = claim_named("b", "d")
    lifecycle.complete(d)
    lifecycle.fail(b, PERMANENT)
    assert sorted(lifecycle.retry(id_of("b"))) == sorted([id_of("b"), id_of("c")])
    complete("b")
    complete("c")


def two_prerequisites() -> None:
    with new_workflow("w") as flow:
        one, two = flow.add("tests.noop", name="one"), flow.add("tests.noop", name="two")
        flow.add("tests.noop", name="after", after=[one, two])


def test_with_two_failed_prerequisites_the_dependant_returns_when_both_have_been_retried() -> None:
    two_prerequisites()
    for lease in claim_named("one", "two"):
        lifecycle.fail(lease, PERMANENT)
    lifecycle.retry(id_of("one"))
    assert statuses() == {"one": "pending", "two": "failed", "after": "cancelled"}
    lifecycle.retry(id_of("two"))
    assert statuses() == {"one": "pending", "two": "pending", "after": "waiting"}
    complete("one", "two")
    complete("after")


def test_with_two_failed_prerequisites_the_order_of_the_retries_does_not_matter() -> None:
    two_prerequisites()
    for lease in claim_named("one", "two"):
        lifecycle.fail(lease, PERMANENT)
    lifecycle.retry(id_of("two"))
    complete("two")
    assert statuses() == {"one": "failed", "two": "completed", "after": "cancelled"}
    lifecycle.retry(id_of("one"))
    complete("one")
    complete("after")


def test_two_failed_prerequisites_can_be_retried_together() -> None:
    two_prerequisites()
    for lease in claim_named("one", "two"):
        lifecycle.fail(lease, PERMANENT)
    assert len(lifecycle.retry([id_of("one"), id_of("two")])) == 3
    complete("one", "two")
    complete("after")


def test_a_prerequisite_that_fails_again_cancels_again() -> None:
    chain_and_fork()
    for _ in range(3):
        fail("a")
        assert statuses(["b", "c", "d"]) == {"b": "cancelled", "c": "cancelled", "d": "cancelled"}
        lifecycle.retry(id_of("a"))
    complete("a")
    complete("b", "d")


def test_retrying_a_dependant_of_a_failed_job_is_refused_and_names_it() -> None:
    chain_and_fork()
    fail("a")
    with pytest.raises(TransitionRefused, match=id_of("a")) as refusal:
        lifecycle.retry(id_of("c"))
    assert refusal.value.code == "prerequisite_failed"
    assert statuses(["a", "b", "c"]) == {"a": "failed", "b": "cancelled", "c": "cancelled"}


def test_everything_that_failed_or_was_cancelled_can_be_retried_at_once() -> None:
    chain_and_fork()
    fail("a")
    lifecycle.retry(list(Job.objects.filter(status__in=("failed", "cancelled")).values_list("pk", flat=True)))
    assert statuses(["a", "b", "c", "d"]) == {"a": "pending", "b": "waiting", "c": "waiting", "d": "waiting"}


def test_a_retry_of_an_optional_prerequisite_leaves_alone_what_went_on_without_it() -> None:
    with new_workflow("w") as flow:
        preview = flow.add("tests.noop", name="preview")
        flow.add("tests.noop", name="publish", after=[optional(preview)])
    fail("preview")
    complete("publish")
    assert lifecycle.retry(preview.id) == [preview.id]
    complete("preview")
    assert set(statuses().values()) == {"completed"}


def test_a_dependant_whose_unique_key_was_taken_stays_cancelled() -> None:
    with new_workflow("w") as flow:
        a = flow.add("tests.noop", name="a")
        b = flow.add("tests.noop", name="b", after=[a], unique_key="k")
        flow.add("tests.noop", name="c", after=[a])
    fail("a")
    enqueue("tests.noop", name="usurper", unique_key="k", delay=60)
    assert lifecycle.retry(a.id) == [a.id, id_of("c")]
    assert stored(b).status == Status.CANCELLED
    complete("a")
    complete("c")
