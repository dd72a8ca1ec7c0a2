"""Rows as they are stored, for the few tests that are about rows; others enqueue, claim and report."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now
from factory.declarations import Sequence, SubFactory, Trait
from factory.django import DjangoModelFactory

from jobs.models import Attempt, Job, Outcome, Prerequisite, Status, SubmissionWindow, Worker


class WorkerFactory(DjangoModelFactory[Worker]):
    class Meta:
        model = Worker

    name = Sequence(lambda number: f"factory-{number}")
    last_heartbeat = Now()


class JobFactory(DjangoModelFactory[Job]):
    """A pending job; `JobFactory(processing=True)` and so on have what belongs to the status."""

    class Meta:
        model = Job

    class Params:
        processing = Trait(
            status=Status.PROCESSING,
            worker=SubFactory(WorkerFactory),
            lease_token=1,
            attempt_number=1,
            claimed_at=Now(),
            claim_expires_at=Now(),
        )
        completed = Trait(status=Status.COMPLETED, completed_at=Now())
        failed = Trait(status=Status.FAILED, last_error="ValueError: no")
        cancelled = Trait(status=Status.CANCELLED, cancelled_at=Now())
        waiting = Trait(status=Status.WAITING)

    type = "tests.noop"
    correlation_id = "factory"


class AttemptFactory(DjangoModelFactory[Attempt]):
    class Meta:
        model = Attempt

    class Params:
        over = Trait(outcome=Outcome.COMPLETED, finished_at=Now())

    job: Any = SubFactory(JobFactory)
    token = 1
    number = 1
    worker_id = "w"
    worker_name = "w"


class PrerequisiteFactory(DjangoModelFactory[Prerequisite]):
    class Meta:
        model = Prerequisite

    job: Any = SubFactory(JobFactory)
    needs: Any = SubFactory(JobFactory)


class SubmissionWindowFactory(DjangoModelFactory[SubmissionWindow]):
    class Meta:
        model = SubmissionWindow

    submitter = "somebody"
    minute = Now()
