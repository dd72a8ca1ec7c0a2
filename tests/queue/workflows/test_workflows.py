"""Jobs that wait for other jobs: advanced in the transaction that ends a prerequisite, repaired by the sweep."""

from datetime import timedelta

import pytest
from django.db import transaction
from pytest_django import Settings

from jobs import (
    EnqueueRefused,
    Flow,
    UnknownJobType,
    database,
    enqueue,
    lifecycle,
    optional,
    orchestrator,
    recovery,
)
from jobs import workflow as new_workflow
from jobs.lifecycle import FailureReport
from jobs.models import Job, Prerequisite, Status, Workflow
from tests.support.queue.actors import age, expire, status_of, stored
from tests.support.queue.flows import PERMANENT, claim_named, complete, fail, id_of, statuses

pytestmark = pytest.mark.django_db


def add(flow: Flow, name: str, *, after: tuple[object, ...] = (), **options: object) -> Job:
    return flow.add("tests.noop", name=name, after=after, **options)  # type: ignore[arg-type]


def diamond() -> None:
    """fetch, then parse and preview, then publish, which can do without the preview."""
    with new_workflow("import") as flow:
        fetch = add(flow, "fetch")
        parse, preview = add(flow, "parse", after=(fetch,)), add(flow, "preview", after=(fetch,))
        add(flow, "publish", after=(parse, optional(preview)))


def test_a_diamond_runs_in_its_order() -> None:
    diamond()
    complete("fetch")
    parse, preview = claim_named("parse", "preview")
    lifecycle.complete(preview)
    claim_named()
    lifecycle.complete(parse)
    complete("publish")
    assert set(statuses().values()) == {"completed"}


def test_an_optional_prerequisite_may_fail() -> None:
    diamond()
    complete("fetch")
    parse, preview = claim_named("parse", "preview")
    lifecycle.fail(preview, PERMANENT)
    claim_named()
    lifecycle.complete(parse)
    complete("publish")
    assert statuses() == {
        "fetch": "completed",
        "parse": "completed",
        "preview": "failed",
        "publish": "completed",
    }


def test_an_optional_prerequisite_is_waited_for_all_the_same() -> None:
    diamond()
    complete("fetch")
    parse, preview = claim_named("parse", "preview")
    lifecycle.complete(parse)
    lifecycle.fail(preview, FailureReport("ValueError", "not yet"))
    claim_named()
    assert statuses(["publish"]) == {"publish": "waiting"}


def test_a_failed_prerequisite_cancels_what_depends_on_it() -> None:
    diamond()
    complete("fetch")
    parse, preview = claim_named("parse", "preview")
    lifecycle.fail(parse, PERMANENT)
    assert statuses(["publish"]) == {"publish": "cancelled"}
    assert stored(id_of("publish")).cancelled_because == id_of("parse")
    lifecycle.complete(preview)
    claim_named()


def test_a_diamond_with_a_failing_and_an_optional_edge_is_retried_to_its_end() -> None:
    diamond()
    complete("fetch")
    parse, preview = claim_named("parse", "preview")
    lifecycle.fail(preview, PERMANENT)
    lifecycle.fail(parse, PERMANENT)
    assert statuses(["publish"]) == {"publish": "cancelled"}
    assert sorted(lifecycle.retry(id_of("parse"))) == sorted([id_of("parse"), id_of("publish")])
    assert statuses() == {"fetch": "completed", "parse": "pending", "preview": "failed", "publish": "waiting"}
    complete("parse")
    complete("publish")
    assert statuses() == {
        "fetch": "completed",
        "parse": "completed",
        "preview": "failed",
        "publish": "completed",
    }


def test_the_failure_of_the_first_cancels_all_the_rest_in_one_transaction() -> None:
    diamond()
    fail("fetch")
    assert statuses() == {
        "fetch": "failed",
        "parse": "cancelled",
        "preview": "cancelled",
        "publish": "cancelled",
    }
    assert set(Job.objects.filter(status="cancelled").values_list("cancelled_because", flat=True)) == {
        id_of("fetch")
    }


def test_a_prerequisite_that_will_be_tried_again_cancels_nothing() -> None:
    diamond()
    (fetch,) = claim_named("fetch")
    lifecycle.fail(fetch, FailureReport("ValueError", "no"))
    assert set(statuses().values()) == {"waiting"}


def test_a_prerequisite_lost_with_its_last_attempt_cancels_what_depends_on_it() -> None:
    with new_workflow("w") as flow:
        first = add(flow, "first", max_attempts=1)
        add(flow, "second", after=(first,))
    claim_named("first")
    expire(first.id)
    lifecycle.recover_expired()
    assert statuses() == {"first": "failed", "second": "cancelled"}


def test_a_cancelled_prerequisite_cancels_what_depends_on_it_unless_optional() -> None:
    with new_workflow("w") as flow:
        first = add(flow, "first")
        second = add(flow, "second", after=(first,))
        add(flow, "third", after=(second,))
        add(flow, "other", after=(optional(first),))
    lifecycle.cancel(first.id)
    assert statuses() == {
        "first": "cancelled",
        "second": "cancelled",
        "third": "cancelled",
        "other": "pending",
    }


def test_a_cancelled_dependant_does_not_concern_its_prerequisites() -> None:
    diamond()
    lifecycle.cancel(id_of("publish"))
    complete("fetch")
    complete("parse", "preview")
    assert statuses(["publish"]) == {"publish": "cancelled"}


def test_dependants_become_pending_in_the_transaction_of_the_completion() -> None:
    diamond()
    (fetch,) = claim_named("fetch")
    with transaction.atomic():
        lifecycle.complete(fetch)
        assert statuses(["fetch", "parse"]) == {"fetch": "completed", "parse": "pending"}
        transaction.set_rollback(True)
    assert statuses(["fetch", "parse"]) == {"fetch": "processing", "parse": "waiting"}
    lifecycle.complete(fetch)


def test_a_delay_counts_beside_the_prerequisites() -> None:
    with new_workflow("w") as flow:
        first = add(flow, "first")
        second = add(flow, "second", after=(first,), delay=timedelta(hours=1))
    complete("first")
    assert (status_of(second), stored(second).blocked) == (Status.WAITING, False)
    age([second.id], 1)
    orchestrator.promote_due()
    complete("second")


def test_a_delay_that_has_passed_does_not_start_a_job_before_its_prerequisite() -> None:
    with new_workflow("w") as flow:
        add(flow, "second", after=(add(flow, "first"),), delay=60)
    age([id_of("second")], 1)
    assert orchestrator.promote_due() == 0
    complete("first")
    complete("second")


def test_a_job_is_claimable_since_its_prerequisites_were_met_not_since_it_was_added() -> None:
    with new_workflow("w") as flow:
        add(flow, "second", after=(add(flow, "first"),))
    Job.objects.update(run_at=database.now_minus(timedelta(days=1)))
    complete("first")
    assert (database.read_clock() - stored(id_of("second")).run_at).total_seconds() < 60


def test_jobs_of_a_workflow_share_its_correlation_id() -> None:
    with new_workflow("w", correlation_id="c-7") as flow:
        add(flow, "second", after=(add(flow, "first"),))
    assert set(Job.objects.values_list("correlation_id", "workflow")) == {("c-7", flow.record.id)}


def test_a_workflow_that_cannot_be_built_leaves_nothing_behind() -> None:
    def build() -> None:
        with new_workflow("w") as flow:
            add(flow, "first")
            flow.add("no.such.type")

    with pytest.raises(UnknownJobType):
        build()
    assert not Job.objects.exists()
    assert not Workflow.objects.exists()


def test_a_prerequisite_that_does_not_exist_is_refused() -> None:
    nobody = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    with new_workflow("w") as flow, pytest.raises(EnqueueRefused, match=nobody) as refusal:
        add(flow, "first", after=(nobody,))
    assert refusal.value.code == "unknown_prerequisite"
    assert not Job.objects.exists()


def test_a_job_may_be_added_after_one_that_has_ended() -> None:
    done, gone = enqueue("tests.noop", name="done"), enqueue("tests.noop", name="gone")
    good, bad = claim_named("done", "gone")
    lifecycle.complete(good)
    lifecycle.fail(bad, PERMANENT)
    with new_workflow("w") as flow:
        add(flow, "after done", after=(done,))
        add(flow, "after gone", after=(optional(gone),))
        with pytest.raises(EnqueueRefused, match=gone.id) as refusal:
            add(flow, "never", after=(gone,))
        assert refusal.value.code == "prerequisite_failed"
    assert statuses(["after done", "after gone", "never"]) == {
        "after done": "pending",
        "after gone": "pending",
    }


@pytest.mark.parametrize("end", [Status.COMPLETED, Status.FAILED])
def test_the_sweep_repairs_a_workflow_that_was_not_advanced(settings: Settings, end: Status) -> None:
    settings.JOBS = {"RECOVERY_GRACE": "1ms"}
    with new_workflow("w") as flow:
        first = add(flow, "first")
        add(flow, "third", after=(add(flow, "second", after=(first,)),))
    (lease,) = claim_named("first")
    Job.objects.filter(pk=first.id).update(has_dependants=False)  # so that its end is told to nobody
    if end == Status.COMPLETED:
        lifecycle.complete(lease)
    else:
        lifecycle.fail(lease, PERMANENT)
    Job.objects.filter(pk=first.id).update(has_dependants=True)
    assert statuses(["second", "third"]) == {"second": "waiting", "third": "waiting"}
    assert recovery.sweep()
    expected = ("pending", "waiting") if end == Status.COMPLETED else ("cancelled", "cancelled")
    assert statuses(["second", "third"]) == dict(zip(("second", "third"), expected, strict=True))


def test_the_sweep_finds_nothing_to_repair_in_a_healthy_workflow() -> None:
    diamond()
    complete("fetch")
    before = list(Job.objects.order_by("pk").values())
    assert orchestrator.repair() == 0
    assert list(Job.objects.order_by("pk").values()) == before


def test_the_orchestrator_completes_nothing() -> None:
    diamond()
    age([id_of("fetch")], 10)
    recovery.sweep()
    orchestrator.promote_due()
    assert not Job.objects.completed().exists()
    assert Prerequisite.objects.count() == 4
