"""Seed 004, Simple Database-Backed Job Queue: a table, a registry, limits for each type."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.test import Client

from jobs import JobContext, UnknownJobType, enqueue, enqueue_many, lifecycle, registry
from jobs.models import Job
from jobs.testing import run_due_jobs
from jobs.ulid import is_ulid
from tests.acceptance.asking import NO, make_due
from tests.conftest import Declare, StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one, claimed_ids, expire, new_worker, race, stored
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker
from tests.support.remote.remote_client import good

pytestmark = pytest.mark.django_db


# -- Problem -----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_job_survives_the_crash_of_its_worker(start_manage: StartManage, log: str, gate: Path) -> None:
    """
    004 · Problem · “If the server restarts or crashes, the job is lost.”
    004 · Consumer · “(or reclaim a stuck job)”
    """
    worker = start_manage("runworker", env=QUICK)
    wait_for_worker(worker)
    job = enqueue("work.hold", {"log": log, "gate": str(gate)})
    wait_until(lambda: read_notes(log, "started"))
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert stored(job).status == "processing"
    gate.touch()
    start_manage("runworker", env=QUICK)
    wait_for_status(job, "completed")


def test_a_failure_is_retried() -> None:
    """
    004 · Problem · “There is no retry mechanism for failures.”
    """
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, NO)
    make_due()
    lifecycle.complete(claim_one().lease)
    assert stored(job).status == "completed"


def test_the_status_of_a_job_is_visible(admin_client: Client) -> None:
    """
    004 · Problem · “No visibility into job status.”
    """
    job = enqueue("tests.noop")
    assert good(admin_client.get(f"/api/jobs/{job.id}"))["status"] == "pending"
    assert admin_client.get(f"/admin/jobs/job/{job.id}/change/").status_code == 200


# -- Schema ------------------------------------------------------------------------------------------------------------


def test_the_table_has_the_columns_of_the_document(declare: Declare) -> None:
    """
    004 · Schema · “ULID”
    004 · Schema · “e.g., `'podcast_import'`, `'transcription'`, `'analytics'`”
    004 · Schema · “Arguments for the job (e.g., `{ podcastId: '...' }`)”
    004 · Schema · “`'pending'`, `'processing'`, `'completed'`, `'failed'`”
    004 · Schema · “When the job was queued”
    004 · Schema · “When a worker picked it up”
    004 · Schema · “When it finished”
    004 · Schema · “Error message if failed”
    004 · Schema · “Count of retry attempts (default 0)”
    Decided: `error` is called `last_error` and `retries` is `attempt_number` (0: never claimed), as in seed 001.
    """
    declare("podcast_import")
    id = enqueue("podcast_import", {"podcastId": "7"}).id
    assert is_ulid(id)
    columns = "type, status, started_at, completed_at, last_error, attempt_number"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM jobs_job WHERE id = %s AND created_at IS NOT NULL", [id])
        assert cursor.fetchone() == ("podcast_import", "pending", None, None, "", 0)
    assert stored(id).payload == {"podcastId": "7"}
    lifecycle.fail(claim_one().lease, NO)
    row = stored(id)
    assert (row.last_error, row.attempt_number, row.started_at is not None) == (
        "RuntimeError: it broke",
        1,
        True,
    )
    make_due()
    lifecycle.complete(claim_one().lease)
    assert (stored(id).status, stored(id).completed_at > row.started_at) == ("completed", True)


# -- Job Registry, Producer --------------------------------------------------------------------------------------------


def test_a_type_is_registered_with_its_handler_and_its_limit(declare: Declare) -> None:
    """
    004 · Job Registry · “The Registry (maps type -> { handler, concurrency })”
    004 · Job Registry · “concurrency: 3 // Max 3 concurrent imports”
    """

    def podcast_import(job: JobContext, podcast_id: str) -> str:
        return podcast_id

    declare("podcast_import", podcast_import, concurrency=3)
    kind = registry.get("podcast_import")
    assert (kind.handler, kind.concurrency) == (podcast_import, 3)
    assert registry.get("work.record").handler.__module__ == "tests.jobapp.job_types", "found by itself"


def test_enqueue_takes_a_type_and_its_arguments(declare: Declare) -> None:
    """
    004 · Producer · “`await enqueueJob('podcast_import', { podcastId: '...' });`”
    """
    declare("podcast_import", lambda job, podcastId: podcastId)  # noqa: N803 (the document's name)
    job = enqueue("podcast_import", {"podcastId": "7"})
    (run,) = run_due_jobs()
    assert (run.id, run.result) == (job.id, "7")
    with pytest.raises(UnknownJobType):
        enqueue("podcast_imports", {"podcastId": "7"})


@pytest.mark.django_db(transaction=True)
def test_a_job_is_enqueued_with_the_transaction_of_its_producer() -> None:
    """
    004 · Producer · “Instead of calling logic directly”
    Decided: enqueue joins the caller's transaction, so a request that is rolled back leaves no job behind.
    """
    with transaction.atomic():
        enqueue("tests.noop")
        transaction.set_rollback(True)
    assert not Job.objects.exists()


# -- Consumer ----------------------------------------------------------------------------------------------------------


def test_only_types_below_their_limit_are_claimed(declare: Declare) -> None:
    """
    004 · Consumer · “Query `jobs` table for count of active (`processing`) jobs per type.”
    004 · Consumer · “Compare active counts against `concurrency` limits in Registry.”
    004 · Consumer · “*only* for allowed types”
    004 · Concurrency Control · “Concurrency limits are defined per job type in the Registry.”
    004 · Concurrency Control · “checking the global state in the database before claiming new work”
    """
    declare("here.limited", concurrency=3)
    limited = [str(id) for id in enqueue_many("here.limited", [{}] * 5, priority=0)]
    free = enqueue("tests.noop").id
    first, second = new_worker(), new_worker()
    assert set(claimed_ids(first, 2)) | set(claimed_ids(second, 3)) == {*limited[:3], free}
    assert claimed_ids(new_worker(), 5) == []


def test_a_stuck_job_does_not_count_and_is_reclaimed(declare: Declare) -> None:
    """
    004 · Consumer · “Active jobs exclude "stuck" jobs (those processing > 5 minutes).”
    004 · Concurrency Control · “"Stuck" jobs (jobs marked processing for > 5 mins) are not counted against the limit”
    004 · Concurrency Control · “allowing them to be reclaimed/retried even if the limit appears full”
    Decided: stuck is a job whose lease is over, not one that has run for five minutes: a lease is renewed by progress
    and heartbeats, and long jobs are no defect.
    """
    declare("here.limited", concurrency=1)
    stuck = enqueue("here.limited").id
    claim_one()
    waiting = enqueue("here.limited").id
    assert claimed_ids(new_worker()) == []
    Job.objects.filter(pk=stuck).update(claimed_at="2020-01-01T00:00:00Z", started_at="2020-01-01T00:00:00Z")
    assert claimed_ids(new_worker()) == [], "long, but alive"
    expire(stuck)
    assert claimed_ids(new_worker(), 2) in ([stuck], [waiting])
    assert Job.objects.claimed().filter(type="here.limited").count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_limit_holds_under_racing_workers(declare: Declare) -> None:
    """
    004 · Problem · “No concurrency control.”
    004 · Consumer · “Use atomic transaction (`UPDATE ... RETURNING` or explicit transaction).”
    004 · Concurrency Control · “The worker respects these limits”
    """
    declare("here.limited", concurrency=3)
    enqueue_many("here.limited", [{}] * 20)
    answers = race([partial(claimed_ids, worker, 2) for worker in [new_worker() for _ in range(5)]])
    claimed = [id for answer in answers for id in answer]
    assert (len(claimed), len(set(claimed))) == (3, 3)


@pytest.mark.django_db(transaction=True)
def test_a_worker_fills_its_slots_and_reports_each_job_when_it_ends(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    """
    004 · Consumer · “starts a polling loop”
    004 · Consumer · “spawn the handler asynchronously (do not block the loop)”
    004 · Consumer · “The loop immediately continues to try filling other slots.”
    004 · Consumer · “When the handler finishes, update the job status in the DB.”
    """
    wait_for_worker(start_manage("runworker", "--concurrency", "3", env=QUICK))
    held = [enqueue("work.hold", {"log": log, "gate": str(gate)}) for _ in range(2)]
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    wait_for_status(enqueue("tests.noop"), "completed")
    failing = enqueue("work.fail", {"log": log}, max_attempts=1)
    wait_for_status(failing, "failed")
    assert {stored(job).status for job in held} == {"processing"}
    gate.touch()
    for job in held:
        wait_for_status(job, "completed")
