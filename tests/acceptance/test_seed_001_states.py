"""Seed 001, Video Status, Transcoding Job and State Machine Diagrams: what is stored of videos and jobs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from jobs import conf, database, enqueue, lifecycle, recovery
from jobs.models import Job, Worker
from jobs.testing import run_due_jobs
from tests.acceptance.asking import (
    FOR_GOOD,
    NO,
    after_probe,
    claim_stage,
    job_shown,
    make_due,
    seconds_left,
    status_of,
)
from tests.support.pages.videos_api_client import bare, upload
from tests.support.queue.actors import claim_one, claimed_ids, expire, new_worker, stored
from tests.support.remote.remote_client import RemoteClient, enqueue_remote, good, refused
from tests.support.remote.remote_fixtures import far as far
from tests.support.remote.remote_fixtures import remote_type as remote_type
from tests.support.videos.video_site import accept, clip, current, only_transcode, two_qualities
from videos.models import Video

pytestmark = pytest.mark.django_db


# -- Video Status ------------------------------------------------------------------------------------------------------


def test_an_uploaded_video_waits_is_transcoded_and_is_ready_to_stream(
    videos_root: Path, admin_client: Client
) -> None:
    """
    001 · Video Status · “Uploaded, waiting for transcoding”
    001 · Video Status · “Being transcoded by a worker”
    001 · Video Status · “Transcoding complete, ready to stream”
    001 · Video Status State Machine · “[*] --> pending: Upload complete”
    001 · Video Status State Machine · “pending --> processing: Worker claims job”
    001 · Video Status State Machine · “processing --> ready: All qualities complete”
    001 · Video Status State Machine · “ready --> [*]: Video available”
    """
    uploaded = good(upload(admin_client))["video"]
    video = Video.objects.get(pk=uploaded["id"])
    seen = [uploaded["status"]]
    lease = claim_one().lease
    seen.append(status_of(video))
    lifecycle.release([lease])
    run_due_jobs()
    assert [*seen, status_of(video)] == ["pending", "processing", "ready"]
    assert {row.status for row in current(video).qualities.all()} == {"completed", "skipped"}
    assert admin_client.get(f"/v/{video.slug}/").status_code == 200


def test_a_video_that_no_worker_has_in_hand_is_pending(videos_root: Path) -> None:
    """
    001 · Video Status · “PROCESSING = "processing" # Being transcoded by a worker”
    """
    video = accept(two_qualities())
    after_probe()
    assert status_of(video) == "pending"
    (lease,) = claim_stage("videos.encode")
    assert status_of(video) == "processing"
    lifecycle.release([lease])
    assert status_of(video) == "pending"


def test_a_video_has_failed_when_its_attempts_are_used(videos_root: Path) -> None:
    """
    001 · Video Status · “Transcoding failed permanently (max retries exceeded)”
    001 · Video Status State Machine · “processing --> failed: Max retries exceeded”
    001 · Video Status State Machine · “failed --> [*]: Permanent failure”
    001 · Video Status State Machine · “Status set when attempt_number >= max_attempts”
    Decided: permanent until a person retries it.
    """
    video = bare("film")
    for _ in range(3):
        make_due()
        assert status_of(video) == "pending"
        lifecycle.fail(claim_one().lease, NO)
    assert status_of(video) == "failed"
    assert claimed_ids(new_worker()) == []


@pytest.mark.parametrize("way", ["expired", "failed"])
def test_a_video_goes_back_to_pending_and_any_worker_may_take_it(videos_root: Path, way: str) -> None:
    """
    001 · Video Status State Machine · “processing --> pending: Claim expires / Worker fails”
    001 · Video Status State Machine · “Job can be reclaimed by any available worker”
    """
    video = bare("film")
    lease = claim_one().lease
    if way == "failed":
        lifecycle.fail(lease, NO)
    else:
        expire(lease.job_id)
        assert recovery.sweep()
    assert status_of(video) == "pending"
    make_due()
    assert claimed_ids(new_worker()) == [lease.job_id]


# -- Transcoding Job ---------------------------------------------------------------------------------------------------


def test_the_fields_of_a_claim_are_empty_set_and_empty_again(admin_client: Client) -> None:
    """
    001 · Transcoding Job · “`claimed_at`: When a worker claimed this job (NULL = unclaimed)”
    001 · Transcoding Job · “`claim_expires_at`: When the claim expires (NULL = no claim)”
    001 · Transcoding Job · “`worker_id`: UUID of the worker processing this job (NULL = no worker)”
    Decided: ids are ULIDs, as seed 004 has them: unique like UUIDs, and in the order of their creation.
    """
    job, worker = enqueue("tests.noop"), new_worker()
    fields = ("claimed_at", "claim_expires_at", "worker_id")
    assert [job_shown(admin_client, job)[name] for name in fields] == [None, None, None]
    lease = claim_one(worker).lease
    shown = job_shown(admin_client, job)
    assert shown["worker_id"] == worker.pk
    assert shown["claimed_at"] < shown["claim_expires_at"]
    lifecycle.complete(lease)
    shown = job_shown(admin_client, job)
    assert (shown["claim_expires_at"], shown["worker_id"]) == (None, None)


@pytest.mark.parametrize("way", ["release", "fail", "expire"])
def test_a_job_that_came_back_has_not_been_claimed(admin_client: Client, way: str) -> None:
    """
    001 · Transcoding Job · “(NULL = unclaimed)”
    """
    job = enqueue("tests.noop")
    lease = claim_one().lease
    if way == "release":
        lifecycle.release([lease])
    elif way == "fail":
        lifecycle.fail(lease, NO)
    else:
        expire(job.id)
        recovery.sweep()
    assert job_shown(admin_client, job)["claimed_at"] is None


def test_a_job_says_when_it_was_completed(admin_client: Client) -> None:
    """
    001 · Transcoding Job · “`completed_at`: When transcoding finished (NULL = not complete)”
    001 · Transcoding Job · “`started_at`: When worker first started processing”
    """
    job = enqueue("tests.noop")
    assert job_shown(admin_client, job)["started_at"] is None
    lifecycle.fail(claim_one().lease, NO)
    first = job_shown(admin_client, job)["started_at"]
    make_due()
    lease = claim_one().lease
    shown = job_shown(admin_client, job)
    assert (shown["started_at"], shown["completed_at"]) == (first, None)
    lifecycle.complete(lease)
    assert job_shown(admin_client, job)["completed_at"] > first


def test_attempts_are_counted_from_one_up_to_three(admin_client: Client) -> None:
    """
    001 · Transcoding Job · “`attempt_number`: Current retry attempt (1-based)”
    001 · Transcoding Job · “`max_attempts`: Maximum allowed retries (default: 3)”
    Decided: 0 says that the job was never claimed; its first run is attempt 1, and 3 is how often it runs at most.
    """
    job = enqueue("tests.noop")
    seen = [job_shown(admin_client, job)["attempt_number"]]
    while stored(job).status != "failed":
        make_due()
        lifecycle.fail(claim_one().lease, NO)
        seen.append(job_shown(admin_client, job)["attempt_number"])
    assert seen == [0, 1, 2, 3]
    assert job_shown(admin_client, job)["max_attempts"] == 3


def test_the_last_error_is_that_of_the_most_recent_failure(admin_client: Client) -> None:
    """
    001 · Transcoding Job · “`last_error`: Error message from most recent failure”
    """
    job = enqueue("tests.noop")
    assert job_shown(admin_client, job)["last_error"] == ""
    for message in ("the first", "the second"):
        make_due()
        lifecycle.fail(claim_one().lease, lifecycle.FailureReport("ValueError", message))
        assert job_shown(admin_client, job)["last_error"] == f"ValueError: {message}"


def test_a_completed_job_has_no_error(admin_client: Client) -> None:
    """
    001 · Transcoding Job · “(NULL = no error)”
    Decided: no error is an empty text, never NULL; what went wrong before is in the job's attempts.
    """
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, NO)
    make_due()
    lifecycle.complete(claim_one().lease)
    assert job_shown(admin_client, job)["last_error"] == ""
    assert [attempt.error for attempt in stored(job).attempts.order_by("token")] == ["it broke", ""]


def test_a_transcode_passes_through_its_steps(videos_root: Path) -> None:
    """
    001 · Transcoding Job · “(probe, thumbnail, transcode, master_playlist, finalize)”
    Decided: a video is several jobs, so the step is on its transcode; the poster is taken from a finished rendition,
    after the picture is encoded.
    """
    video = accept(clip(50))
    steps = []
    while status_of(video) != "ready":
        lifecycle.release([claim_one().lease])
        run_due_jobs(limit=1)
        steps.append(only_transcode(video).current_step)
    assert list(dict.fromkeys(steps)) == ["probe", "transcode", "thumbnail", "master_playlist", "finalize"]


def test_progress_is_a_percentage_with_the_time_of_its_last_report(
    far: RemoteClient, admin_client: Client
) -> None:
    """
    001 · Transcoding Job · “`progress_percent`: Overall progress (0-100)”
    001 · Transcoding Job · “`last_checkpoint`: Last progress update timestamp”
    """
    enqueue_remote()
    job = far.claim_one()
    before = stored(job["job_id"]).last_checkpoint
    good(far.report("progress", job, percent=40, step="transcode"))
    shown = job_shown(admin_client, job["job_id"])
    assert (shown["progress_percent"], shown["current_step"]) == (40, "transcode")
    assert stored(job["job_id"]).last_checkpoint > before
    for percent in (-1, 101):
        assert refused(far.report("progress", job, percent=percent), 422)


def test_who_processed_a_job_stays_on_record(admin_client: Client) -> None:
    """
    001 · Transcoding Job · “`processed_by_worker_id`: Permanent record of which worker processed this job”
    001 · Transcoding Job · “`processed_by_worker_name`: Human-readable worker name for debugging”
    """
    job, worker = enqueue("tests.noop"), new_worker(name="anna")
    lifecycle.complete(claim_one(worker).lease)
    Worker.objects.all().delete()
    assert stored(job).processed_by_worker_id == worker.pk
    assert job_shown(admin_client, job)["processed_by_worker_name"] == "anna"


# -- Derived Job States ------------------------------------------------------------------------------------------------


@pytest.fixture
def jobs() -> dict[str, str]:
    """The id of a job in each situation."""
    ids: dict[str, str] = {}

    def begin(name: str, **options: Any) -> Any:
        ids[name] = enqueue("tests.noop", priority=-100, **options).id
        return claim_one().lease

    lifecycle.release([begin("released")])
    Job.objects.update(priority=100)
    lifecycle.fail(begin("retrying"), NO)
    begin("running")
    begin("late")
    expire(ids["late"])
    lifecycle.complete(begin("done"))
    lifecycle.fail(begin("dead", max_attempts=1), NO)
    lifecycle.fail(begin("hopeless"), FOR_GOOD)
    ids["fresh"] = enqueue("tests.noop", priority=100).id
    return ids


STATES = {
    "unclaimed": {"fresh", "released", "retrying"},
    "claimed": {"running"},
    "expired": {"late"},
    "completed": {"done"},
    "failed": {"dead", "hopeless"},
    "retrying": {"retrying"},
}


@pytest.mark.parametrize("state", STATES)
def test_every_derived_state_is_a_filter(jobs: dict[str, str], admin_client: Client, state: str) -> None:
    """
    001 · Derived Job States · “Available for workers to claim”
    001 · Derived Job States · “Actively processing (claim valid)”
    001 · Derived Job States · “Worker failed to update, ready for reclaim”
    001 · Derived Job States · “Transcoding finished successfully”
    001 · Derived Job States · “Permanently failed”
    001 · Derived Job States · “Failed but will retry”
    Decided: one stored status decides, so a permanent failure has failed although attempts are left, and a job that
    backs off is unclaimed although nobody may claim it yet.
    """
    found = {row["id"] for row in good(admin_client.get(f"/api/jobs?state={state}"))["jobs"]}
    assert {name for name, id in jobs.items() if id in found} == STATES[state]


SEED_SQL = {
    "unclaimed": "claimed_at IS NULL AND completed_at IS NULL",
    "claimed": "claimed_at IS NOT NULL AND claim_expires_at > {now} AND completed_at IS NULL",
    "expired": "claimed_at IS NOT NULL AND claim_expires_at <= {now} AND completed_at IS NULL",
    "completed": "completed_at IS NOT NULL",
    "failed": "last_error <> '' AND attempt_number >= max_attempts",
    "retrying": "last_error <> '' AND attempt_number < max_attempts AND claimed_at IS NULL",
}


@pytest.mark.parametrize("state", STATES)
def test_the_conditions_of_the_document_select_the_same_rows(jobs: dict[str, str], state: str) -> None:
    """
    001 · Derived Job States · “`claimed_at = NULL AND completed_at = NULL`”
    001 · Derived Job States · “`claimed_at != NULL AND claim_expires_at > NOW() AND completed_at = NULL`”
    001 · Derived Job States · “`claimed_at != NULL AND claim_expires_at <= NOW() AND completed_at = NULL`”
    001 · Derived Job States · “`completed_at != NULL`”
    001 · Derived Job States · “`last_error != NULL AND attempt_number >= max_attempts`”
    001 · Derived Job States · “`last_error != NULL AND attempt_number < max_attempts AND claimed_at = NULL`”
    Decided: no error is an empty text, and failed or cancelled jobs have no claim either: beside these conditions
    `status` tells them from unclaimed ones, and a permanent failure from a job that will be retried.
    """
    condition = SEED_SQL[state].format(now=database.now_sql())
    found = {row[0] for row in database.fetch(f"SELECT id FROM jobs_job WHERE {condition}")}
    ended = {"dead", "hopeless"} if state in ("unclaimed", "retrying") else {"hopeless"}
    names = {name for name, id in jobs.items() if id in found}
    assert names - ended == STATES[state] - ended


# -- Job Lifecycle State Machine ---------------------------------------------------------------------------------------


def test_a_claim_lasts_thirty_minutes_and_progress_extends_it(far: RemoteClient) -> None:
    """
    001 · Job Lifecycle State Machine · “Unclaimed --> Claimed: Worker calls /api/worker/claim”
    001 · Job Lifecycle State Machine · “Claimed --> Claimed: Worker sends progress update (extends claim)”
    001 · Job Lifecycle State Machine · “Claim duration: 30 minutes”
    001 · Job Lifecycle State Machine · “Extended on each progress update”
    001 · Video Status State Machine · “Worker extends claim with progress updates”
    001 · 3. Progress Updates · “Each progress update extends claim by 30 minutes”
    """
    enqueue_remote()
    job = far.claim_one()
    assert 1790 < seconds_left(job["job_id"]) <= 1800
    Job.objects.update(claim_expires_at=database.now_plus(timedelta(minutes=1)))
    assert seconds_left(job["job_id"]) <= 60
    good(far.report("progress", job, percent=10))
    assert 1790 < seconds_left(job["job_id"]) <= 1800


def test_a_job_is_created_claimed_and_completed(far: RemoteClient) -> None:
    """
    001 · Job Lifecycle State Machine · “[*] --> Unclaimed: Job created”
    001 · Job Lifecycle State Machine · “Claimed --> Completed: Worker calls /api/worker/complete”
    001 · Job Lifecycle State Machine · “Completed --> [*]: Success”
    """
    id = enqueue_remote()
    assert Job.objects.unclaimed().get().pk == id
    job = far.claim_one()
    assert Job.objects.claimed().get().pk == id
    good(far.report("complete", job))
    assert Job.objects.completed().get().pk == id
    assert far.claim() == []


def test_an_expired_claim_is_released_by_the_sweep() -> None:
    """
    001 · Job Lifecycle State Machine · “Claimed --> Expired: claim_expires_at passes”
    001 · Job Lifecycle State Machine · “Expired --> Unclaimed: Stale job checker releases claim”
    001 · Job Lifecycle State Machine · “Stale job checker runs every 60s”
    """
    job = enqueue("tests.noop")
    claim_one()
    expire(job.id)
    assert Job.objects.expired().get() == job
    assert recovery.sweep()
    assert Job.objects.unclaimed().get() == job
    assert conf.current().sweep_interval.total_seconds() == 60


def test_a_failed_attempt_is_retried_until_none_is_left(far: RemoteClient) -> None:
    """
    001 · Job Lifecycle State Machine · “Claimed --> Retrying: Worker calls /api/worker/fail (attempt < max)”
    001 · Job Lifecycle State Machine · “Retrying --> Unclaimed: Job ready for retry”
    001 · Job Lifecycle State Machine · “Claimed --> Failed: Worker calls /api/worker/fail (attempt >= max)”
    001 · Job Lifecycle State Machine · “Failed --> [*]: Permanent failure”
    """
    id = enqueue_remote()
    for _ in range(2):
        good(far.report("fail", far.claim_one()))
        assert Job.objects.retrying().get().pk == id
        make_due()
        assert Job.objects.unclaimed().get().pk == id
    good(far.report("fail", far.claim_one()))
    assert Job.objects.failed().get().pk == id
    assert far.claim() == []
