"""The database itself refuses impossible rows, whoever writes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError

from jobs.models import Breaker, ClaimAnswer, Firing, Job, RateWindow, Schedule, Status
from tests.support.queue.constraints import undone
from tests.support.queue.factories import (
    AttemptFactory,
    JobFactory,
    PrerequisiteFactory,
    SubmissionWindowFactory,
    WorkerFactory,
)

pytestmark = pytest.mark.django_db

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

Write = Callable[[], Any]


def job(**fields: Any) -> Write:
    return lambda: JobFactory.create(**fields)


def breaker(**fields: Any) -> Write:
    return lambda: Breaker.objects.create(name="b", **fields)


def schedule(**fields: Any) -> Write:
    return lambda: Schedule.objects.create(name="s", type="tests.noop", cron="* * * * *", **fields)


def two_firings_of_one_tick() -> None:
    row = schedule(next_at=NOON)()
    for by_hand in (True, True, False, False):
        Firing.objects.create(schedule=row, tick=NOON, by_hand=by_hand)


def two_with_one_key(first: str, second: str) -> Write:
    return lambda: [JobFactory.create(unique_key="k", **{state: True}) for state in (first, second)]


def two_attempts_of_one_lease() -> None:
    row = JobFactory.create(lease_token=1)
    AttemptFactory.create(job=row, over=True)
    AttemptFactory.create(job=row, over=True)


def two_answers_to_one_claim() -> None:
    worker = WorkerFactory.create()
    for _ in range(2):
        ClaimAnswer.objects.create(worker=worker, key="k", leases=[])


def two_edges_between_two_jobs() -> None:
    edge = PrerequisiteFactory.create()
    PrerequisiteFactory.create(job=edge.job, needs=edge.needs, optional=True)


IMPOSSIBLE: list[tuple[str, str, Write]] = [
    ("jobs_known_status", "an unknown status", job(status="sleeping")),
    ("jobs_known_status", "no status", job(status="")),
    ("jobs_lease_iff_processing", "running without a worker", job(processing=True, worker=None)),
    ("jobs_lease_iff_processing", "running without an expiry", job(processing=True, claim_expires_at=None)),
    ("jobs_lease_iff_processing", "running since never", job(processing=True, claimed_at=None)),
    ("jobs_lease_iff_processing", "running without a token", job(processing=True, lease_token=0)),
    *(
        (
            "jobs_lease_iff_processing",
            f"{status} with an expiry",
            job(**{status: True}, claim_expires_at=NOON),
        )
        for status in ("waiting", "completed", "failed", "cancelled")
    ),
    (
        "jobs_lease_iff_processing",
        "pending with a worker",
        lambda: JobFactory.create(worker=WorkerFactory.create()),
    ),
    ("jobs_completed_iff_dated", "completed at no time", job(completed=True, completed_at=None)),
    *(
        ("jobs_completed_iff_dated", f"{status} with completed_at", job(**{status: True}, completed_at=NOON))
        for status in ("waiting", "processing", "failed", "cancelled")
    ),
    ("jobs_attempts_in_bounds", "one attempt too many", job(attempt_number=4, max_attempts=3)),
    ("jobs_attempts_in_bounds", "a negative attempt", job(attempt_number=-1)),
    ("jobs_attempts_in_bounds", "no attempt allowed", job(max_attempts=0)),
    ("jobs_progress_in_bounds", "more than all", job(progress_percent=100.1)),
    ("jobs_progress_in_bounds", "less than nothing", job(progress_percent=-0.1)),
    *(
        ("jobs_blocked_only_waiting", f"{status} and blocked", job(**{status: True}, blocked=True))
        for status in ("processing", "completed", "failed", "cancelled")
    ),
    ("jobs_one_active_per_key", "two waiting", two_with_one_key("waiting", "waiting")),
    ("jobs_one_active_per_key", "waiting and running", two_with_one_key("waiting", "processing")),
    ("jobs_attempt_open_iff_running", "running and over", lambda: AttemptFactory.create(finished_at=NOON)),
    ("jobs_attempt_open_iff_running", "over at no time", lambda: AttemptFactory.create(outcome="failed")),
    ("jobs_one_attempt_per_lease", "two attempts of one lease", two_attempts_of_one_lease),
    ("jobs_one_edge", "two edges between two jobs", two_edges_between_two_jobs),
    (
        "jobs_one_window",
        "two windows in a minute",
        lambda: [SubmissionWindowFactory.create(minute=NOON) for _ in range(2)],
    ),
    (
        "jobs_worker_name",
        "two workers of one name",
        lambda: [WorkerFactory.create(name="w") for _ in range(2)],
    ),
    (
        "jobs_one_answer_per_key",
        "two answers to one claim",
        two_answers_to_one_claim,
    ),
    (
        "jobs_one_rate_window",
        "two counts of one client",
        lambda: RateWindow.objects.bulk_create(
            RateWindow(name="n", slot=1, started_at=NOON, count=1) for _ in range(2)
        ),
    ),
    ("jobs_schedule_next_iff_active", "active and never due", schedule()),
    ("jobs_schedule_next_iff_active", "paused and due", schedule(paused=True, next_at=NOON)),
    ("jobs_schedule_next_iff_active", "removed and due", schedule(removed=True, next_at=NOON)),
    ("jobs_one_firing_per_tick", "a tick that fires twice", two_firings_of_one_tick),
    ("jobs_breaker_known_state", "neither open nor closed", breaker(state="ajar")),
    ("jobs_breaker_open_until", "open for ever", breaker(state="open")),
    ("jobs_breaker_open_until", "closed until noon", breaker(state="closed", retry_at=NOON)),
    ("jobs_breaker_open_until", "half-open until noon", breaker(state="half-open", retry_at=NOON)),
]

COLUMNS = {
    "jobs_one_active_per_key": "jobs_job.unique_key",
    "jobs_one_attempt_per_lease": "jobs_attempt.job_id, jobs_attempt.token",
    "jobs_one_edge": "jobs_prerequisite.job_id, jobs_prerequisite.needs_id",
    "jobs_one_window": "jobs_submissionwindow.submitter, jobs_submissionwindow.minute",
    "jobs_worker_name": "jobs_worker.name",
    "jobs_one_firing_per_tick": "jobs_firing.schedule_id, jobs_firing.tick",
    "jobs_one_answer_per_key": "jobs_claimanswer.worker_id, jobs_claimanswer.key",
    "jobs_one_rate_window": "jobs_ratewindow.name, jobs_ratewindow.slot",
}
"""SQLite names the columns of a unique constraint, not the constraint."""


@pytest.mark.parametrize(
    ("constraint", "write"),
    [pytest.param(name, write, id=f"{name}: {what}") for name, what, write in IMPOSSIBLE],
)
def test_an_impossible_row_is_refused(constraint: str, write: Write) -> None:
    named = COLUMNS.get(constraint, constraint) if connection.vendor == "sqlite" else constraint
    with pytest.raises(IntegrityError, match=named), transaction.atomic():
        write()


def test_every_constraint_is_shown_to_refuse_something() -> None:
    declared = {
        constraint.name
        for model in apps.get_app_config("jobs").get_models()
        for constraint in model._meta.constraints
    }
    assert declared - {name for name, _, _ in IMPOSSIBLE} == set()


@pytest.mark.parametrize("status", [status for status in Status if status != Status.PENDING])
def test_a_possible_row_is_accepted_in_every_status(status: Status) -> None:
    with undone():
        assert JobFactory.create(**{status.value: True}).status == status


@pytest.mark.parametrize("ended", ["completed", "failed", "cancelled"])
def test_any_number_of_ended_jobs_may_share_the_key_of_an_active_one(ended: str) -> None:
    with undone():
        for state in (ended, ended, "processing"):
            JobFactory.create(unique_key="k", **{state: True})
        assert Job.objects.filter(unique_key="k").count() == 3


def test_a_worker_that_holds_a_lease_cannot_be_deleted() -> None:
    with undone():
        worker = WorkerFactory.create()
        JobFactory.create(processing=True, worker=worker)
        with pytest.raises(ProtectedError):
            worker.delete()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite compares byte by byte anyway")
def test_ids_are_compared_byte_by_byte() -> None:
    """Whatever the collation of the database: indexes that a LIKE or an order needs must fit."""
    for name in ("id", "correlation_id"):
        field: Any = Job._meta.get_field(name)
        assert field.db_parameters(connection)["collation"] == "C"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT collation_name FROM information_schema.columns"
            " WHERE table_name = 'jobs_job' AND column_name IN ('id', 'correlation_id')"
        )
        assert cursor.fetchall() == [("C",)]
