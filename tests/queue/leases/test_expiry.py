"""An expired lease is dead although nobody has swept: what its holder writes is refused. Within the grace it lives."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from jobs import JobContext, LeaseLost, database, enqueue, enqueue_many, lifecycle
from jobs.lifecycle import FailureReport, Lease, ProgressReport
from jobs.lifecycle.leases import lock_leased
from jobs.models import Attempt, Event, Job, Status
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import AS_JSON, wait_until
from tests.support.queue.actors import claim_one, expire, new_worker, outcomes_of, status_of, stored
from tests.support.queue.expiry import within_grace as within_grace  # fixtures
from tests.support.queue.expiry import without_grace as without_grace
from tests.support.queue.workers import QUICK, freeze, wait_for_status

Settings = Any
Write = Callable[[Lease], Any]

pytestmark = pytest.mark.django_db


def lock(lease: Lease) -> None:
    """As what sends files, adds children or publishes does it."""
    with database.atomic():
        lock_leased(lease)


WRITES: dict[str, Write] = {
    "progress": lambda lease: lifecycle.report_progress([ProgressReport(lease, 50, "late")]),
    "complete": partial(lifecycle.complete, result={"n": 1}),
    "fail": partial(lifecycle.fail, failure=FailureReport("ValueError", "no")),
    "release": lambda lease: lifecycle.release([lease]),
    "lock": lock,
}
on_each = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


def everything() -> Any:
    return [list(model._default_manager.order_by("pk").values()) for model in (Job, Attempt, Event)]


def is_refused(write: Write, lease: Lease) -> bool:
    try:
        answer = write(lease)
    except LeaseLost:
        return True
    return isinstance(answer, set | list) and lease in answer


@on_each
@pytest.mark.usefixtures("without_grace")
def test_whatever_is_written_under_an_expired_lease_is_refused_and_changes_nothing(write: Write) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    expire(job.id)
    before = everything()
    assert is_refused(write, lease)
    assert everything() == before
    lifecycle.recover_expired()
    assert status_of(job) == Status.PENDING


@on_each
@pytest.mark.usefixtures("within_grace")
def test_within_the_grace_an_expired_lease_lives(write: Write) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    expire(job.id)
    assert not is_refused(write, lease)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="the server of a database has a start")
def test_the_grace_begins_when_the_database_was_started(settings: Settings) -> None:
    enqueue_many("tests.noop", [{}] * 2)
    early, late = (claimed.lease for claimed in lifecycle.claim(new_worker(), 2))
    expire(early.job_id)
    expire(late.job_id)
    settings.JOBS = {"RECOVERY_GRACE": "1000d"}
    lifecycle.complete(early)
    settings.JOBS = {"RECOVERY_GRACE": "1ms"}
    with pytest.raises(LeaseLost):
        lifecycle.complete(late)


@pytest.mark.usefixtures("without_grace")
def test_a_heartbeat_renews_what_lives_and_does_not_revive_what_has_expired() -> None:
    enqueue_many("tests.noop", [{}] * 2)
    worker = new_worker()
    dead, alive = (claimed.lease for claimed in lifecycle.claim(worker, 2))
    expire(dead.job_id)
    before = stored(dead.job_id).claim_expires_at
    assert set(lifecycle.live_leases(worker.pk)) == {alive}
    assert lifecycle.renew(worker.pk) == 1
    assert stored(dead.job_id).claim_expires_at == before
    assert set(lifecycle.live_leases(worker.pk)) == {alive}
    assert lifecycle.recover_expired() == [dead.job_id]


@pytest.mark.usefixtures("within_grace")
def test_within_the_grace_a_heartbeat_renews_what_has_expired() -> None:
    enqueue("tests.noop")
    worker = new_worker()
    lease = claim_one(worker).lease
    expire(lease.job_id)
    assert set(lifecycle.live_leases(worker.pk)) == {lease}
    assert lifecycle.renew(worker.pk) == 1
    assert lifecycle.recover_expired() == []


@pytest.mark.usefixtures("without_grace")
def test_of_a_batch_only_what_has_expired_is_refused() -> None:
    enqueue_many("tests.noop", [{}] * 3)
    first, dead, last = (claimed.lease for claimed in lifecycle.claim(new_worker(), 3))
    expire(dead.job_id)
    reports = [ProgressReport(lease, 10) for lease in (first, dead, last)]
    assert lifecycle.report_progress(reports) == [dead]
    assert lifecycle.complete_many([(lease, None) for lease in (first, dead, last)]) == {dead}
    assert [status_of(lease.job_id) for lease in (first, dead, last)] == [
        Status.COMPLETED,
        Status.PROCESSING,
        Status.COMPLETED,
    ]


@pytest.mark.usefixtures("without_grace")
def test_a_job_whose_lease_has_expired_adds_no_children() -> None:
    enqueue("tests.noop")
    context = JobContext(claim_one(), report=lambda report: None)
    expire(context.id)
    with pytest.raises(LeaseLost):
        context.add("tests.noop")
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_slept_through_the_end_of_its_lease_completes_nothing(
    start_manage: StartManage, tmp_path: Path
) -> None:
    """Nobody sweeps: neither this worker nor another one."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    job = enqueue("work.hold", log=str(log), gate=str(gate))
    worker = start_manage("runworker", env={**QUICK, **AS_JSON, "JOBS_SWEEP_INTERVAL": "1h"})
    wait_until(lambda: read_notes(log, "started"))
    freeze(worker, in_transaction=False)
    expire(job.id)
    gate.touch()
    os.kill(worker.pid, signal.SIGCONT)
    wait_until(lambda: "lease_lost" in worker.read_output() or read_notes(log, "stopped"))
    assert (status_of(job), outcomes_of(job.id)) == (Status.PROCESSING, ["running"])
    assert lifecycle.recover_expired() == [job.id]
    wait_for_status(job, "completed")
    assert outcomes_of(job.id) == ["lost", "completed"]
