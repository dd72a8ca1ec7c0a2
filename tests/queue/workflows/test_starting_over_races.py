"""Jobs that start over while a prerequisite of theirs ends: none of them is left waiting for what has ended already."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction

from jobs import database, lifecycle, orchestrator, workflow
from jobs.models import Job
from jobs.reconcile import reconcile
from tests.conftest import Declare
from tests.support.queue.actors import Background, claim_one
from tests.support.queue.flows import PERMANENT, claim_named, id_of, statuses

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_job_that_is_retried_while_its_prerequisite_completes_is_not_forgotten() -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop", name="first")
        flow.add("tests.noop", name="second", after=[first])
    (lease,) = claim_named("first")
    lifecycle.cancel(id_of("second"))
    with transaction.atomic():
        lifecycle.complete(lease)
        retry = Background(partial(lifecycle.retry, id_of("second")))
        retry.wait_until_blocked()
    retry.result()
    assert statuses() == {"first": "completed", "second": "pending"}


def test_a_job_that_is_retried_while_its_prerequisite_fails_is_cancelled_again() -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop", name="first")
        flow.add("tests.noop", name="second", after=[first])
    (lease,) = claim_named("first")
    lifecycle.cancel(id_of("second"))
    with transaction.atomic():
        lifecycle.fail(lease, PERMANENT)
        retry = Background(partial(lifecycle.retry, id_of("second")))
        retry.wait_until_blocked()
    retry.outcome()
    assert statuses() == {"first": "failed", "second": "cancelled"}
    lifecycle.retry(id_of("first"))
    assert statuses() in (
        {"first": "pending", "second": "waiting"},  # cancelled because of the first, so revived with it
        {"first": "pending", "second": "cancelled"},  # refused, as on a single connection
    )


def test_a_job_that_is_revived_while_its_other_prerequisite_completes_is_not_forgotten() -> None:
    with workflow("w") as flow:
        one, two = flow.add("tests.noop", name="one"), flow.add("tests.noop", name="two")
        flow.add("tests.noop", name="after", after=[one, two])
    first, second = claim_named("one", "two")
    lifecycle.fail(first, PERMANENT)
    assert statuses(["after"]) == {"after": "cancelled"}
    with transaction.atomic():
        lifecycle.complete(second)
        retry = Background(partial(lifecycle.retry, id_of("one")))
        retry.wait_until_blocked()
    retry.result()
    lifecycle.complete(claim_one().lease)
    assert statuses() == {"one": "completed", "two": "completed", "after": "pending"}


def test_a_delayed_job_whose_time_comes_while_its_prerequisite_completes_again_is_not_forgotten(
    declare: Declare,
) -> None:
    declare("tests.make", artifact=lambda payload: False)
    with workflow("w") as flow:
        first = flow.add("tests.make", name="first")
        second = flow.add("tests.noop", name="second", after=[first], delay=60)
    lifecycle.complete(claim_one().lease)
    reconcile()  # its artifact is missing: the first job starts over
    (lease,) = claim_named("first")
    Job.objects.filter(pk=second.pk).update(run_at=database.now_minus(timedelta(seconds=1)))
    with transaction.atomic():
        lifecycle.complete(lease)
        promotion = Background(orchestrator.promote_due)
        promotion.wait_until_blocked()
    promotion.result()
    assert statuses() == {"first": "completed", "second": "pending"}
