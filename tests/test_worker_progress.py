"""Progress is stored, keeps the lease alive, and tells a handler when its lease is gone."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models.functions import Now

from jobs import database, enqueue
from jobs.lifecycle import recover_expired
from jobs.models import Job
from tests.actors import expire, outcomes_of
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support import wait_until
from tests.workers import QUICK, wait_for_status

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
