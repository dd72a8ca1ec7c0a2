"""Seed 001's table of derived job states: its own SQL, with our names for the table and for "no error"."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from jobs import database, enqueue, lifecycle
from jobs.lifecycle import FailureReport
from jobs.models import Job
from tests.support.queue.actors import claim_one, expire, new_worker

pytestmark = pytest.mark.django_db

SEED = {
    "unclaimed": "claimed_at IS NULL AND completed_at IS NULL",
    "claimed": "claimed_at IS NOT NULL AND claim_expires_at > NOW() AND completed_at IS NULL",
    "expired": "claimed_at IS NOT NULL AND claim_expires_at <= NOW() AND completed_at IS NULL",
    "completed": "completed_at IS NOT NULL",
    "failed": "last_error <> '' AND attempt_number >= max_attempts",
    "retrying": "last_error <> '' AND attempt_number < max_attempts AND claimed_at IS NULL",
}
"""The seed compares with NULL; our last_error is empty where the seed's is NULL."""


@dataclass
class Jobs:
    """One job for each way that a life can have gone."""

    new: str
    delayed: str
    released: str
    retrying: str
    released_after_failure: str
    recovered: str
    started_over: str
    running: str
    running_again: str
    expired: str
    completed: str
    completed_after_failure: str
    failed: str
    lost: str
    refused: str
    cancelled: str


def fail(lease: lifecycle.Lease, **how: Any) -> None:
    lifecycle.fail(lease, FailureReport("ValueError", "no", **how))


@pytest.fixture
def jobs() -> Jobs:
    worker = new_worker()
    ids: dict[str, str] = {}
    urgency = itertools.count(-1, -1)

    def claim(job_id: str) -> lifecycle.Lease:
        lifecycle.run_now(job_id)
        lifecycle.change_priority(job_id, next(urgency))
        lease = claim_one(worker).lease
        assert lease.job_id == job_id
        return lease

    for name in Jobs.__dataclass_fields__:
        once = name in ("failed", "lost")
        delay = 3600 if name == "delayed" else None
        ids[name] = enqueue("tests.noop", max_attempts=1 if once else 3, delay=delay).id
        if name in ("new", "delayed"):
            continue
        lease = claim(ids[name])
        if name in ("retrying", "released_after_failure", "running_again", "completed_after_failure"):
            fail(lease)
            if name != "retrying":
                lease = claim(ids[name])
        if name.startswith("released"):
            lifecycle.release([lease])
        elif name in ("recovered", "lost"):
            expire(lease.job_id)
            lifecycle.recover_expired()
        elif name.startswith("completed"):
            lifecycle.complete(lease)
        elif name in ("failed", "refused", "started_over"):
            fail(lease, permanent=name != "failed")
            if name == "started_over":
                lifecycle.retry(lease.job_id)
        elif name == "cancelled":
            lifecycle.cancel(lease.job_id)
    expire(ids["expired"])
    return Jobs(**ids)


def found_by(condition: str, jobs: Jobs) -> set[str]:
    rows = database.fetch(f"SELECT id FROM jobs_job WHERE {condition.replace('NOW()', database.now_sql())}")
    names = {job_id: name for name, job_id in asdict(jobs).items()}
    return {names[row[0]] for row in rows}


UNCLAIMED = {"new", "delayed", "released", "retrying", "released_after_failure", "recovered", "started_over"}


def test_the_seeds_sql_finds_what_it_says(jobs: Jobs) -> None:
    found = {state: found_by(condition, jobs) for state, condition in SEED.items()}
    assert found["claimed"] == {"running", "running_again"}
    assert found["expired"] == {"expired"}
    assert found["completed"] == {"completed", "completed_after_failure"}
    assert found["failed"] == {"failed", "lost"}
    # What our statuses tell apart and the seed's columns do not: docs/states.md lists it.
    assert found["unclaimed"] == UNCLAIMED | {"failed", "lost", "refused", "cancelled"}
    assert found["retrying"] == {"retrying", "released_after_failure", "recovered", "started_over", "refused"}


def test_with_the_status_the_seeds_sql_and_ours_agree(jobs: Jobs) -> None:
    active = "status IN ('waiting', 'pending')"
    for state, more in {
        "unclaimed": active,
        "retrying": active,
        "completed": "TRUE",
        "expired": "TRUE",
    }.items():
        ours = {name for name, job_id in asdict(jobs).items() if job_id in _ids(state)}
        assert found_by(f"{SEED[state]} AND {more}", jobs) == ours, state


def test_history_is_in_the_attempts_and_no_mark_of_it_is_left_on_the_job(jobs: Jobs) -> None:
    assert not Job.objects.with_stale_marks().exists()
    done = Job.objects.get(pk=jobs.completed_after_failure)
    assert (done.last_error, done.claimed_at is not None) == ("", True)
    assert list(done.attempts.order_by("token").values_list("outcome", "error")) == [
        ("failed", "no"),
        ("completed", ""),
    ]


def _ids(state: str) -> set[str]:
    return set(getattr(Job.objects, state)().values_list("pk", flat=True))
