"""Seed 001, Edge Cases and Race Conditions: what meets, what crashes, what comes too late."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from jobs import enqueue, lifecycle, recovery
from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.acceptance.asking import (
    after_probe,
    status_of,
)
from tests.support.pages.videos_api_client import bare
from tests.support.queue.actors import (
    Background,
    a_dead_process,
    claim_one,
    claimed_ids,
    expire,
    new_worker,
    race,
    race_outcomes,
    stored,
)
from tests.support.remote.remote_client import RemoteClient, enqueue_remote, good, new_remote, refused
from tests.support.remote.remote_fixtures import far as far
from tests.support.remote.remote_fixtures import remote_type as remote_type
from tests.support.videos.video_failures import _quick_retries as _quick_retries
from tests.support.videos.video_failures import encoded as encoded
from tests.support.videos.video_failures import fail_quality, published, run_all, run_out_of_attempts
from tests.support.videos.video_site import accept, only_transcode, two_qualities

pytestmark = pytest.mark.django_db


# -- Edge Cases --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_at_the_same_moment_one_gets_the_job() -> None:
    """
    001 · Edge Cases · “Two workers try to claim the same job simultaneously”
    001 · Edge Cases · “Transaction isolation prevents both claiming same job”
    001 · State Transition Tests · “Job Claiming: Test atomic claiming with concurrent workers”
    001 · Race Condition Tests · “Double Claim: Multiple workers claiming same job”
    """
    job = enqueue("tests.noop").id
    answers = race([partial(claimed_ids, worker) for worker in [new_worker() for _ in range(5)]])
    assert sorted(answers) == [[], [], [], [], [job]]


def test_after_a_crash_another_worker_resumes_at_the_last_checkpoint(
    videos_root: Path, encoded: list[tuple[int, tuple[str, ...]]]
) -> None:
    """
    001 · Edge Cases · “Stale job checker detects expired claim and releases job”
    001 · Edge Cases · “Job returns to `pending` state for another worker”
    001 · Edge Cases · “Per-quality checkpoints preserved for resume”
    001 · Edge Cases · “Claim expires after 30 minutes without progress updates”
    001 · Failure Recovery Tests · “Worker Crash: Simulate crash during transcoding”
    001 · Integration Tests · “Checkpoint Resume: Crash and resume with checkpoints”
    Decided: a claim also ends at once on proof of death (the process is gone), not only after 30 minutes.
    """
    video = accept(two_qualities())
    after_probe()
    Job.objects.filter(type="videos.encode", payload__chunk=1).update(priority=-1000)
    run_due_jobs(limit=1)
    crashed = a_dead_process(types=["videos.encode"])
    (lost,) = lifecycle.claim(crashed, 1)
    assert lost.payload["chunk"] == 2
    recovery.sweep()
    assert stored(lost.lease.job_id).status == "pending"
    run_all()
    assert (status_of(video), [number for number, _ in encoded]) == ("ready", [1, 2])


@pytest.mark.django_db(transaction=True)
def test_a_completion_and_a_release_of_the_same_job_do_not_both_happen() -> None:
    """
    001 · Race Condition Tests · “Stale Release Race: Job released while worker completing”
    """
    job, worker = enqueue("tests.noop"), new_worker()
    lease = claim_one(worker).lease
    with transaction.atomic():
        assert lifecycle.recover_lost(worker.pk, "its process is gone") == [job.id]
        late = Background(lambda: lifecycle.complete(lease))
        late.wait_until_blocked()
    assert getattr(late.outcome(), "code", None) == "lease_lost"
    assert (stored(job).status, stored(job).completed_at) == ("pending", None)


def test_a_worker_whose_job_was_given_to_another_sends_nothing_more(far: RemoteClient) -> None:
    """
    001 · Edge Cases · “Worker finishes transcoding but claim expired, job reassigned”
    001 · Edge Cases · “Worker detects error and abandons job (doesn't upload files)”
    001 · Edge Cases · “New worker will start fresh”
    """
    id = enqueue_remote()
    late = far.claim_one()
    expire(id)
    recovery.sweep()
    other = new_remote("other")
    new = other.claim_one()
    for verb in ("progress", "complete", "fail"):
        assert refused(far.report(verb, late), 409, "lease_lost")
    stop = far.heartbeat("busy", running=[{"job_id": id, "token": late["token"]}])["stop"]
    assert [one["job_id"] for one in stop] == [id]
    good(other.report("complete", new))
    assert stored(id).processed_by_worker_name == "other"


def test_a_claim_and_the_status_of_its_video_change_together(
    videos_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    001 · Edge Cases · “Both operations in same database transaction”
    001 · Edge Cases · “Either both succeed or both fail”
    001 · Edge Cases · “Prevents inconsistent state (claimed job with pending video)”
    001 · Related Issues · “Non-transactional stale claim cleanup (fixed with single transaction)”
    """
    video = bare("film")
    lease = claim_one().lease
    expire(lease.job_id)

    def die(*args: Any, **options: Any) -> None:
        raise RuntimeError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr("jobs.lifecycle.recovering.announce", die)
        with pytest.raises(RuntimeError):
            lifecycle.recover_expired()
    assert (stored(lease.job_id).status, status_of(video)) == ("processing", "processing")
    lifecycle.recover_expired()
    assert (stored(lease.job_id).status, status_of(video)) == ("pending", "pending")


@pytest.mark.parametrize("critical", [False, True])
def test_one_quality_fails_and_the_others_go_on(
    videos_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, critical: bool
) -> None:
    """
    001 · Edge Cases · “Each quality has independent status in `quality_progress` table”
    001 · Edge Cases · “Failed quality marked as `failed`, others continue”
    001 · Edge Cases · “Job fails if any critical quality fails”
    """
    settings.VIDEOS = {**settings.VIDEOS, "CRITICAL_QUALITIES": "all" if critical else "360p"}
    video = accept(two_qualities(50))
    fail_quality(monkeypatch, "480p")
    run_out_of_attempts()
    row = only_transcode(video).qualities.get(quality="480p")
    assert (row.status, status_of(video)) == ("failed", "failed" if critical else "ready")
    if not critical:
        assert published(video) == ["360p"]


@pytest.mark.django_db(transaction=True)
def test_writers_that_meet_at_a_locked_database_try_again() -> None:
    """
    001 · Failure Recovery Tests · “Database Lock: Test transaction retry logic”
    """
    jobs = [enqueue("tests.noop") for _ in range(8)]
    leases = [claimed.lease for claimed in lifecycle.claim(new_worker(), 8)]
    assert race_outcomes([partial(lifecycle.complete, lease) for lease in leases]) == [None] * 8
    assert {stored(job).status for job in jobs} == {"completed"}


def test_several_workers_share_one_video(videos_root: Path) -> None:
    """
    001 · Integration Tests · “Multi-Worker: Multiple workers processing concurrently”
    """
    video = accept(two_qualities())
    after_probe()
    held = [lifecycle.claim(new_worker(types=["videos.encode"]), 1)[0] for _ in range(2)]
    assert sorted(job.payload["chunk"] for job in held) == [1, 2]
    assert len({job.lease.worker_id for job in held}) == 2
    lifecycle.release([job.lease for job in held])
    run_all()
    assert status_of(video) == "ready"
