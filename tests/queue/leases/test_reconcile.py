"""reconcile: records that disagree with the artifacts that exist are repaired; live leases are never touched."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from jobs import enqueue, lifecycle, optional, workflow
from jobs.lifecycle import FailureReport, Lease
from jobs.models import Event, Job
from jobs.reconcile import Finding, reconcile
from tests.conftest import Declare, RunManage, StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import (
    claim_one,
    events_of,
    expire,
    new_worker,
    outcomes_of,
    status_of,
    stored,
)
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db

PERMANENT = FailureReport("ValueError", "no", permanent=True)


@pytest.fixture
def existing(declare: Declare, settings: Any) -> set[str]:
    """The names whose artifact exists; jobs of type "tests.make" have a name."""
    settings.JOBS = {"RECOVERY_GRACE": "1ms"}
    names: set[str] = set()
    declare("tests.make", artifact=lambda payload: payload["name"] in names)
    return names


def make(state: str) -> Job:
    """A job named "a" in this state."""
    job = enqueue("tests.make", name="a", delay=60 if state == "waiting" else None)
    if state == "cancelled":
        lifecycle.cancel(job.id)
    elif state in ("failed", "completed", "expired", "processing"):
        lease = claim_one().lease
        if state == "failed":
            lifecycle.fail(lease, PERMANENT)
        elif state == "completed":
            lifecycle.complete(lease, {"made": True})
        elif state == "expired":
            expire(job.id)
    return job


def changes(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.status, finding.becomes) for finding in findings]


@pytest.mark.parametrize("state", ["waiting", "pending", "failed", "cancelled"])
def test_a_job_whose_artifact_exists_is_completed(existing: set[str], state: str) -> None:
    job = make(state)
    existing.add("a")
    before = Job.objects.get(pk=job.pk)
    assert changes(reconcile()) == [(state, "completed")]
    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.progress_percent, after.cancelled_at) == ("completed", 100, None)
    assert after.lease_token == before.lease_token + 1
    assert events_of(job.id)[-1] == "reconciled"
    assert reconcile() == []


def test_an_expired_lease_is_ended_and_its_job_completed_when_the_artifact_exists(existing: set[str]) -> None:
    job = make("expired")
    existing.add("a")
    assert changes(reconcile()) == [("processing", "pending"), ("pending", "completed")]
    assert status_of(job) == "completed"


def test_a_live_lease_is_left_alone_although_the_artifact_exists(existing: set[str]) -> None:
    job = make("processing")
    existing.add("a")
    before = Job.objects.filter(pk=job.pk).values().get()
    assert reconcile() == []
    assert Job.objects.filter(pk=job.pk).values().get() == before


def test_a_completed_job_whose_artifact_is_missing_starts_over(existing: set[str]) -> None:
    job = make("completed")
    assert changes(reconcile()) == [("completed", "pending")]
    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.attempt_number, after.completed_at, after.result) == (
        "pending",
        0,
        None,
        None,
    )
    assert claim_one().lease.job_id == job.id


def test_the_worker_that_completed_it_cannot_complete_it_again_after_reconcile(existing: set[str]) -> None:
    enqueue("tests.make", name="a")
    lease = claim_one().lease
    lifecycle.complete(lease)
    reconcile()
    again = claim_one().lease
    assert lifecycle.complete_many([(lease, None)]) == {lease}
    assert lifecycle.complete_many([(again, None)]) == set()
    existing.add("a")


def test_the_jobs_of_a_dead_worker_go_back_and_those_of_a_living_one_stay(existing: set[str]) -> None:
    dead, alive = new_worker(), new_worker()
    lost, running = enqueue("tests.noop", max_attempts=2), enqueue("tests.noop")
    spent = enqueue("tests.noop", max_attempts=1)
    assert [lease.job_id for lease in leases(dead, 1)] == [lost.id]
    assert [lease.job_id for lease in leases(alive, 1)] == [running.id]
    assert [lease.job_id for lease in leases(dead, 1)] == [spent.id]
    type(dead).objects.filter(pk=dead.pk).update(stopped_at=F("registered_at"))
    findings = {finding.job_id: finding.becomes for finding in reconcile()}
    assert findings == {lost.id: "pending", spent.id: "failed"}
    assert [status_of(job) for job in (lost, running, spent)] == ["pending", "processing", "failed"]


def leases(worker: Any, n: int) -> list[Lease]:
    return [claimed.lease for claimed in lifecycle.claim(worker, n)]


def test_jobs_of_types_without_an_artifact_are_not_concerned(existing: set[str]) -> None:
    enqueue("tests.noop")
    lifecycle.complete(claim_one().lease)
    assert reconcile() == []


def test_a_dry_run_names_every_change_and_makes_none(existing: set[str]) -> None:
    existing.add("b")
    completed, expired = make("completed"), make("expired")
    waiting = enqueue("tests.make", name="b", delay=60)
    before = list(Job.objects.order_by("pk").values())
    findings = {finding.job_id: finding.becomes for finding in reconcile(dry_run=True)}
    assert findings == {completed.id: "pending", expired.id: "pending", waiting.id: "completed"}
    assert list(Job.objects.order_by("pk").values()) == before
    assert not Event.objects.exists()
    assert {finding.job_id: finding.becomes for finding in reconcile()} == findings


def test_an_artifact_check_that_raises_harms_only_its_own_job(
    declare: Declare, existing: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    def moody(payload: dict[str, Any]) -> bool:
        if payload["name"] == "bad":
            raise OSError("the disk is away")
        return True

    declare("tests.moody", artifact=moody)
    bad, good = enqueue("tests.moody", name="bad"), enqueue("tests.moody", name="good")
    existing.add("a")
    other = make("pending")
    with caplog.at_level(logging.ERROR, logger="jobs.reconcile"):
        reconcile()
    assert [status_of(job) for job in (bad, good, other)] == ["pending", "completed", "completed"]
    (record,) = caplog.records
    assert record.args == ("tests.moody", bad.id)
    assert record.exc_info is not None


def test_dependants_go_on_when_reconcile_completes_what_they_need(existing: set[str]) -> None:
    with workflow("w") as flow:
        made = flow.add("tests.make", name="a", delay=60)
        follower = flow.add("tests.noop", after=[made])
    existing.add("a")
    reconcile()
    assert status_of(follower) == "pending"


def test_what_the_failure_had_cancelled_is_revived(existing: set[str]) -> None:
    with workflow("w") as flow:
        made = flow.add("tests.make", name="a")
        follower = flow.add("tests.noop", after=[made])
        last = flow.add("tests.noop", after=[follower])
    lifecycle.fail(claim_one().lease, PERMANENT)
    assert (status_of(follower), status_of(last)) == ("cancelled", "cancelled")
    existing.add("a")
    reconcile()
    assert (status_of(follower), status_of(last)) == ("pending", "waiting")


def test_a_job_that_starts_over_waits_for_prerequisites_that_start_over_too(existing: set[str]) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.make", name="a")
        second = flow.add("tests.make", name="b", after=[first])
    lifecycle.complete(claim_one().lease)
    lifecycle.complete(claim_one().lease)
    reconcile()
    assert (status_of(first), status_of(second)) == ("pending", "waiting")
    lifecycle.complete(claim_one().lease)
    assert status_of(second) == "pending"
    existing.update({"a", "b"})


def test_a_delayed_job_waits_again_for_a_prerequisite_that_starts_over(existing: set[str]) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.make", name="a")
        second = flow.add("tests.noop", after=[first], delay=60)
    lifecycle.complete(claim_one().lease)
    assert not Job.objects.get(pk=second.pk).blocked
    reconcile()
    lifecycle.run_now(second.id)
    row = Job.objects.get(pk=second.pk)
    assert (status_of(first), row.status, row.blocked) == ("pending", "waiting", True)
    lifecycle.complete(claim_one().lease)
    assert status_of(second) == "pending"
    existing.add("a")


def test_a_delayed_job_is_cancelled_when_its_prerequisite_starts_over_and_fails(existing: set[str]) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.make", name="a")
        second = flow.add("tests.noop", after=[first], delay=60)
        third = flow.add("tests.noop", after=[optional(second)])
    lifecycle.complete(claim_one().lease)
    reconcile()
    lifecycle.fail(claim_one().lease, PERMANENT)
    assert status_of(second) == "waiting"
    lifecycle.run_now(second.id)
    assert (status_of(second), status_of(third)) == ("cancelled", "pending")
    lifecycle.retry(first.id)
    assert status_of(second) == "waiting"


def test_a_missing_artifact_stays_missing_while_another_job_has_the_unique_key(
    existing: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    old = enqueue("tests.make", name="a", unique_key="k")
    lifecycle.complete(claim_one().lease)
    new = enqueue("tests.make", name="a", unique_key="k")
    assert reconcile() == []
    assert (status_of(old), status_of(new)) == ("completed", "pending")
    (record,) = [record for record in caplog.records if record.name == "jobs.reconcile"]
    assert (record.levelname, record.args) == ("WARNING", (old.id, "completed"))


@pytest.mark.django_db(transaction=True)
def test_the_artifact_is_asked_before_a_run(start_manage: StartManage, tmp_path: Path) -> None:
    log, path = str(tmp_path / "log"), tmp_path / "artifact"
    wait_for_worker(start_manage("runworker", env=QUICK))  # its own reconcile is over
    path.touch()
    job = enqueue("work.make", log=log, path=str(path))
    wait_for_status(job, "completed")
    assert (outcomes_of(job.id), events_of(job.id)) == (["completed"], [])
    assert read_notes(log) == []


@pytest.mark.django_db(transaction=True)
def test_reconcile_beside_a_living_worker_touches_nothing_of_it(
    start_manage: StartManage, run_manage: RunManage, tmp_path: Path
) -> None:
    log, gate = str(tmp_path / "log"), tmp_path / "gate"
    job = enqueue("work.hold", log=log, gate=str(gate))
    start_manage("runworker", env=QUICK)
    wait_until(lambda: read_notes(log, "started"))
    steady = ("status", "lease_token", "worker_id", "attempt_number", "claimed_at")
    before = Job.objects.filter(pk=job.pk).values(*steady).get()
    assert job.id not in run_manage("reconcile").stdout
    assert not Event.objects.exists()
    assert Job.objects.filter(pk=job.pk).values(*steady).get() == before
    gate.touch()
    assert wait_for_status(job, "completed").result == "held"
    assert len(read_notes(log, "started")) == 1


@pytest.mark.django_db(transaction=True)
def test_marks_that_an_earlier_release_has_left_are_removed(run_manage: RunManage) -> None:
    done, failed = enqueue("tests.noop"), enqueue("tests.noop", max_attempts=1)
    lifecycle.complete(claim_one().lease)
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no"))
    Job.objects.filter(pk=done.pk).update(last_error="ValueError: once")
    Job.objects.filter(pk=failed.pk).update(claimed_at=Now())
    assert run_manage("check_invariants", check=False).returncode == 1
    said = run_manage("reconcile").stdout
    assert done.pk in said
    assert failed.pk in said
    assert run_manage("check_invariants").returncode == 0
    assert (stored(done).last_error, stored(done).claimed_at is not None) == ("", True)
    assert (stored(failed).last_error, stored(failed).claimed_at) == ("ValueError: no", None)
