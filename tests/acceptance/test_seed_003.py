"""Seed 003, State Machine and Leases: who may change what, and what a lease is good for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import transaction
from pytest_django import Settings

from jobs import LeaseLost, conf, database, enqueue, lifecycle, orchestrator, recovery, workflow
from jobs.lifecycle import Lease, ProgressReport
from jobs.models import Event, Job, Worker
from jobs.testing import run_due_jobs
from tests.acceptance.asking import NO, after_probe, status_of
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import (
    Background,
    a_dead_process,
    claim_one,
    claimed_ids,
    events_of,
    expire,
    new_worker,
    outcomes_of,
    stored,
)
from tests.support.queue.commands import manage
from tests.support.queue.workers import is_in_transaction, wait_for_status, wait_for_worker
from tests.support.videos.video_failures import encoded as encoded
from tests.support.videos.video_site import accept, current, files_in, two_qualities
from videos import storage

pytestmark = pytest.mark.django_db


# -- Stage statuses ----------------------------------------------------------------------------------------------------


def test_every_status_of_a_stage_has_its_name_here() -> None:
    """
    003 · Stage statuses · “`NEW` — stage exists but has not been made available”
    003 · Stage statuses · “`READY` — stage can be claimed by a worker”
    003 · Stage statuses · “`RUNNING` — a worker has claimed the stage and holds a lease”
    003 · Stage statuses · “`DONE` — stage completed successfully”
    003 · Stage statuses · “`ERROR` — stage failed (may be retried based on policy)”
    Decided: a stage is a job. NEW is `waiting`, READY `pending`, RUNNING `processing`, DONE `completed`, ERROR
    `failed` (or `waiting` again, while the policy has attempts left); the words of seeds 000, 001 and 004 won.
    """
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first], max_attempts=1)
    assert (stored(second).status, stored(first).status) == ("waiting", "pending")
    lease = claim_one().lease
    assert (stored(first).status, stored(first).worker_id) == ("processing", lease.worker_id)
    lifecycle.complete(lease)
    assert (stored(first).status, stored(second).status) == ("completed", "pending")
    lifecycle.fail(claim_one().lease, NO)
    assert stored(second).status == "failed"
    assert lifecycle.retry(second.id) == [second.id]


# -- Who is allowed to change what -------------------------------------------------------------------------------------


@pytest.fixture
def two_stages() -> tuple[Job, Job]:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    return first, second


def test_a_stage_is_ready_when_its_prerequisites_are_done(two_stages: tuple[Job, Job]) -> None:
    """
    003 · Orchestrator · “Advances stages from `NEW → READY` when prerequisites are met”
    """
    _, second = two_stages
    orchestrator.repair()
    orchestrator.promote_due()
    assert stored(second).status == "waiting"
    lifecycle.complete(claim_one().lease)
    assert stored(second).status == "pending"


def test_the_orchestrator_completes_and_runs_nothing(two_stages: tuple[Job, Job]) -> None:
    """
    003 · Orchestrator · “Never marks work `DONE`”
    003 · Orchestrator · “Does not “do” heavy work”
    """
    first, second = two_stages
    claim_one()
    expire(first.id)
    for _ in range(3):
        assert recovery.sweep()
    assert (stored(first).status, stored(second).status) == ("pending", "waiting")
    assert not Job.objects.completed().exists()


def test_a_worker_claims_and_completes_its_own_stage_only(two_stages: tuple[Job, Job]) -> None:
    """
    003 · Workers · “Claim work: `READY → RUNNING` (and set a lease)”
    003 · Workers · “Complete work: `RUNNING → DONE` (or `ERROR`)”
    003 · Workers · “Never advance downstream stages”
    """
    first, second = two_stages
    worker = new_worker()
    assert claimed_ids(worker, 5) == [first.id], "not what has yet to become ready"
    forged = Lease(second.id, 1, worker.pk)
    with pytest.raises(LeaseLost):
        lifecycle.complete(forged)
    assert stored(second).status == "waiting"


# -- Concurrency-safe claiming -----------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_claim_is_one_short_transaction_that_passes_over_locked_rows() -> None:
    """
    003 · Concurrency-safe claiming · “`SELECT ... FOR UPDATE SKIP LOCKED`”
    003 · Concurrency-safe claiming · “locks the row”
    003 · Concurrency-safe claiming · “updates it to `RUNNING`”
    003 · Concurrency-safe claiming · “writes lease metadata”
    003 · Concurrency-safe claiming · “commits quickly”
    """
    first, second = enqueue("tests.noop"), enqueue("tests.noop")
    rival, other = new_worker(), new_worker()
    with transaction.atomic():
        assert claimed_ids(rival) == [first.id]
        late = Background(lambda: claimed_ids(other))
        if not database.is_postgres():
            late.wait_until_blocked()  # SQLite has one writer at a time
    assert late.result() == [second.id]
    claimed = stored(first)
    assert (claimed.status, claimed.worker_id, claimed.lease_token) == ("processing", rival.pk, 1)


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_the_work_is_done(
    start_manage: StartManage, log: str, gate: Path
) -> None:
    """
    003 · Concurrency-safe claiming · “The expensive work happens outside the transaction.”
    """
    wait_for_worker(start_manage("runworker"))
    job = enqueue("work.hold", {"log": log, "gate": str(gate)})
    wait_until(lambda: read_notes(log, "started"))
    wait_until(lambda: not is_in_transaction())
    assert stored(job).status == "processing"
    gate.touch()
    wait_for_status(job, "completed")


# -- Per-stage leases --------------------------------------------------------------------------------------------------


def test_a_lease_has_an_owner_and_an_end() -> None:
    """
    003 · Per-stage leases · “`<stage>_lease_owner` — a unique identifier for the claimant”
    003 · Per-stage leases · “`<stage>_lease_expires_at` — a timestamp after which the work is considered abandoned”
    Decided: beside them a token that goes up at every claim and recovery, since the same worker may claim twice.
    """
    job, worker = enqueue("tests.noop"), new_worker()
    lease = claim_one(worker).lease
    row = stored(job)
    assert (row.worker_id, row.lease_token) == (worker.pk, lease.token)
    assert row.claim_expires_at - row.claimed_at == conf.current().claim_duration


@pytest.mark.parametrize("then", ["recovered", "reclaimed by another", "reclaimed by itself", "cancelled"])
@pytest.mark.parametrize("way", ["complete", "fail", "progress"])
def test_a_stale_worker_changes_nothing(then: str, way: str) -> None:
    """
    003 · Completion is compare-and-set · “stage is still `RUNNING`”
    003 · Completion is compare-and-set · “lease owner matches”
    003 · Completion is compare-and-set · “prevents a late/stale worker from overwriting progress after recovery”
    """
    job, worker = enqueue("tests.noop"), new_worker()
    lease = claim_one(worker).lease
    if then == "cancelled":
        lifecycle.cancel(job.id)
    else:
        expire(job.id)
        recovery.sweep()
        if then.startswith("reclaimed"):
            claim_one(worker if then.endswith("itself") else new_worker())
    before = Job.objects.values().get()
    attempts: dict[str, Callable[[], object]] = {
        "complete": lambda: lifecycle.complete(lease, {"stale": True}),
        "fail": lambda: lifecycle.fail(lease, NO),
    }
    if way == "progress":
        assert lifecycle.report_progress([ProgressReport(lease, 99)]) == [lease]
    else:
        with pytest.raises(LeaseLost):
            attempts[way]()
    assert Job.objects.values().get() == before


# -- Recovery loop -----------------------------------------------------------------------------------------------------


def test_the_recovery_loop_resets_what_was_abandoned_and_says_why() -> None:
    """
    003 · Recovery loop · “Finds stages that are `RUNNING` and whose lease is expired”
    003 · Recovery loop · “Resets that stage to `READY`”
    003 · Recovery loop · “Clears the lease fields”
    003 · Recovery loop · “Records a diagnostic message for operators”
    """
    abandoned, alive = enqueue("tests.noop"), enqueue("tests.noop")
    claim_one(), claim_one()
    expire(abandoned.id)
    recovery.sweep()
    row = stored(abandoned)
    assert (row.status, row.worker_id, row.claim_expires_at) == ("pending", None, None)
    assert stored(alive).status == "processing"
    assert events_of(abandoned.id) == ["recovered"]
    assert "expired" in Event.objects.get().detail
    assert row.last_error != ""


@pytest.mark.parametrize("how", ["crash", "sleep", "restart"])
def test_no_stage_is_lost_whatever_happens_to_its_worker(how: str) -> None:
    """
    003 · Recovery loop · “This provides crash safety, sleep safety, and restart safety.”
    """
    job = enqueue("tests.noop")
    worker = a_dead_process() if how == "crash" else new_worker()
    lease = claim_one(worker).lease
    if how == "sleep":
        expire(job.id)  # a laptop that was closed; when it wakes up its report comes too late
    elif how == "restart":
        Worker.objects.filter(pk=worker.pk).update(stopped_at=database.now_minus(timedelta(seconds=1)))
    assert manage("reconcile").code == 0
    assert (stored(job).status, outcomes_of(job.id)) == ("pending", ["lost"])
    with pytest.raises(LeaseLost):
        lifecycle.complete(lease)


# -- Idempotency guidelines --------------------------------------------------------------------------------------------


def test_files_have_deterministic_paths_and_checksums(videos_root: Path) -> None:
    """
    003 · Idempotency guidelines · “Write artifacts to deterministic paths”
    003 · Idempotency guidelines · “Record checksums/hashes for key outputs when feasible”
    """
    made = []
    for slug in ("one", "two"):
        video = accept(two_qualities(50), slug=slug)
        run_due_jobs()
        version = current(video)
        assert all(rendition.sha256 for rendition in version.renditions.all())
        made.append(files_in(storage.generation(version)))
    assert {name for name in made[0] if name.endswith(".m4s")} >= {"480p/seg_00001.m4s", "480p/seg_00002.m4s"}
    assert made[0].keys() == made[1].keys()
    media = {name: content for name, content in made[0].items() if name.endswith((".m4s", ".mp4"))}
    assert {name: made[1][name] for name in media} == media


def test_work_whose_output_exists_is_skipped(tmp_path: Path, log: str) -> None:
    """
    003 · Idempotency guidelines · “If an output already exists and passes validation, treat the stage as completed”
    """
    path = tmp_path / "made"
    first = enqueue("work.make", {"log": log, "path": str(path)})
    run_due_jobs()
    second = enqueue("work.make", {"log": log, "path": str(path)})
    run_due_jobs()
    assert (stored(first).status, stored(second).status) == ("completed", "completed")
    assert len(read_notes(log)) == 1


def test_publishing_comes_last(videos_root: Path) -> None:
    """
    003 · Idempotency guidelines · “Keep “commit” actions last (for example: uploading, publishing, deleting)”
    """
    video = accept(two_qualities(50))
    types = []
    while status_of(video) != "ready":
        assert video.transcodes.get().published_at is None
        types += [run.type for run in run_due_jobs(limit=1)]
    assert (types[0], types[-1]) == ("videos.probe", "videos.finalize")


# -- Segment-level leases ----------------------------------------------------------------------------------------------


def test_a_segment_has_a_lease_of_its_own(
    videos_root: Path, settings: Settings, encoded: list[tuple[int, tuple[str, ...]]]
) -> None:
    """
    003 · Segment-level leases · “a segment is a smaller work unit within a job”
    003 · Segment-level leases · “recovery can re-queue only the failed segment”
    Decided: the unit is a chunk of SEGMENTS_PER_CHUNK segments (5), each a job; with 1 it is the segment itself.
    """
    settings.VIDEOS = {**settings.VIDEOS, "SEGMENTS_PER_CHUNK": 1}
    video = accept(two_qualities(75))
    after_probe()
    chunks = Job.objects.filter(type="videos.encode")
    assert chunks.count() == 3
    (lost,) = lifecycle.claim(a_dead_process(types=["videos.encode"]), 1)
    (done,) = lifecycle.claim(new_worker(types=["videos.encode"]), 1)
    recovery.sweep()
    assert (stored(lost.lease.job_id).status, stored(done.lease.job_id).status) == ("pending", "processing")
    assert list(chunks.filter(attempt_number=0).values_list("status", flat=True)) == ["pending"]
    lifecycle.release([done.lease])
    run_due_jobs()
    assert status_of(video) == "ready"
    assert sorted(number for number, _ in encoded) == [1, 2, 3]
