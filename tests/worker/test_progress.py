"""Progress is stored, keeps the lease alive, and tells a handler when its lease is gone."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models.functions import Now

from jobs import database, enqueue
from jobs.lifecycle import recover_expired
from jobs.models import Job
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import expire, outcomes_of
from tests.support.queue.workers import QUICK, wait_for_status

pytestmark = pytest.mark.django_db(transaction=True)

NO_HEARTBEAT = QUICK | {"JOBS_HEARTBEAT_INTERVAL": "1m"}


def test_progress_is_stored_and_renews_the_lease(start_manage: StartManage, log: str, gate: Path) -> None:
    job = enqueue("work.progress", log=log, gate=str(gate))
    start_manage("runworker", env=NO_HEARTBEAT)
    wait_until(
        lambda: Job.objects.filter(pk=job.pk, progress_percent__gte=1, current_step__startswith="step ")
    )
    soon = Now() + timedelta(minutes=1)
    Job.objects.filter(pk=job.pk).update(claim_expires_at=soon)
    wait_until(lambda: Job.objects.filter(pk=job.pk, claim_expires_at__gt=soon))
    before = Job.objects.get(pk=job.pk).last_checkpoint
    wait_until(lambda: Job.objects.filter(pk=job.pk, last_checkpoint__gt=before))
    gate.touch()
    done = wait_for_status(job, "completed")
    assert (done.progress_percent, done.result) == (100, "progressed")


def test_progress_on_a_lost_lease_stops_the_handler(start_manage: StartManage, log: str, gate: Path) -> None:
    job = enqueue("work.progress", log=log, gate=str(gate))
    start_manage("runworker", "--concurrency=1", env=NO_HEARTBEAT)
    wait_until(lambda: read_notes(log, "started"))
    with database.atomic():
        expire(job.pk)
        assert recover_expired() == [job.pk]
    wait_until(lambda: read_notes(log, "stopped"))
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    gate.touch()
    done = wait_for_status(job, "completed")
    assert (done.attempt_number, done.result) == (2, "progressed")
    assert outcomes_of(job.pk) == ["lost", "completed"]


def test_a_handler_without_progress_for_too_long_loses_its_lease_and_is_stopped(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    """Its process is alive and heartbeats renew what has shown life, but not this one."""
    hung, alive = (enqueue("work.hold", log=log, gate=str(gate), max_attempts=1) for _ in range(2))
    start_manage("runworker", "--concurrency=2", env=QUICK)
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    soon = Now() + timedelta(minutes=1)
    Job.objects.filter(pk=alive.pk).update(claim_expires_at=soon)
    Job.objects.filter(pk=hung.pk).update(
        last_checkpoint=Now() - timedelta(minutes=31), claim_expires_at=Now() - timedelta(seconds=1)
    )
    assert wait_for_status(hung, "failed").last_error != ""
    assert outcomes_of(hung.pk) == ["lost"]
    wait_until(lambda: Job.objects.filter(pk=alive.pk, claim_expires_at__gt=soon))
    wait_for_status(enqueue("work.record", log=log), "completed")  # the slot is free again
    gate.touch()
    wait_for_status(alive, "completed")
    assert outcomes_of(hung.pk) == ["lost"]
    assert [line["job"] for line in read_notes(log, "finished")] == [alive.pk]
