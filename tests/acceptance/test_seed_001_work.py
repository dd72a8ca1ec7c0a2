"""Seed 001, State Transitions 1 to 4a: a job is created, claimed, reported on, completed; a video is made anew."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from pytest_django import Settings

from jobs import database, enqueue, lifecycle, recovery
from jobs.lifecycle import ProgressReport
from jobs.models import Job
from jobs.testing import run_due_jobs
from jobs.wakeup import streams
from tests.acceptance.asking import NO, after_probe, claim_stage, make_due, seconds_left, status_of
from tests.conftest import Declare, StartManage
from tests.support.pages.videos_api_client import VIDEOS, bare, send, upload
from tests.support.queue.actors import (
    Background,
    age,
    claim_one,
    claimed_ids,
    expire,
    new_worker,
    stored,
)
from tests.support.queue.workers import wait_for_status, wait_for_worker
from tests.support.remote.remote_client import RemoteClient, enqueue_remote, good, new_remote, refused
from tests.support.remote.remote_films import claim, make
from tests.support.remote.remote_films import encoder as encoder
from tests.support.remote.remote_films import transcode as transcode
from tests.support.remote.remote_fixtures import far as far
from tests.support.remote.remote_fixtures import remote_type as remote_type
from tests.support.remote.remote_types import archive
from tests.support.servers.redis_server import RedisServer
from tests.support.videos.video_failures import encoded as encoded
from tests.support.videos.video_failures import published
from tests.support.videos.video_site import accept, clip, current, files_in, two_qualities
from videos import pipeline, storage
from videos.models import Transcode, Video

pytestmark = pytest.mark.django_db


# -- 1. Job Creation ---------------------------------------------------------------------------------------------------


def test_an_upload_is_a_file_a_video_and_a_job(videos_root: Path, admin_client: Client) -> None:
    """
    001 · 1. Job Creation · “**Trigger:** Video uploaded via Admin API”
    001 · 1. Job Creation · “Admin API saves file to `UPLOADS_DIR/{video_id}.ext`”
    001 · 1. Job Creation · “`videos` record with `status = 'pending'`”
    001 · 1. Job Creation · “`transcoding_jobs` record with `claimed_at = NULL`”
    Decided: the source is kept in a folder of the video's own below VIDEOS["ROOT"], beside its versions.
    """
    video = Video.objects.get(pk=good(upload(admin_client, clip(50)))["video"]["id"])
    assert storage.source(video).read_bytes() == clip(50).read_bytes()
    assert video.pk in storage.source(video).parts
    assert video.status == "pending"
    assert Job.objects.get().claimed_at is None


def test_a_video_without_its_job_is_never_stored(videos_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    001 · 1. Job Creation · “Single database transaction ensures consistency”
    """
    begin = pipeline.start

    def die_after(transcode: Transcode) -> None:
        begin(transcode)
        raise RuntimeError("the power is gone")

    monkeypatch.setattr(pipeline, "start", die_after)
    with pytest.raises(RuntimeError):
        accept(clip(50))
    assert (Video.objects.count(), Transcode.objects.count(), Job.objects.count()) == (0, 0, 0)
    assert files_in(videos_root) == {}


@pytest.mark.django_db(transaction=True)
def test_in_mode_redis_a_new_job_is_announced_in_a_stream(
    redis_server: RedisServer, settings: Settings
) -> None:
    """
    001 · 1. Job Creation · “Optional: Job pushed to Redis Streams for instant dispatch”
    001 · Job Queue · “Priority levels (high, normal, low)”
    Decided: the entry is a hint without the job; which job a worker gets is decided by the database.
    """
    settings.JOBS = {**settings.JOBS, "QUEUE_MODE": "redis", "REDIS_URL": redis_server.url}
    for priority, label in ((0, "high"), (5, "normal"), (10, "low")):
        enqueue("tests.noop", priority=priority)
        assert redis_server.client.xlen(streams.stream(label)) == 1


@pytest.mark.django_db(transaction=True)
def test_a_local_worker_finds_a_new_job_by_itself(start_manage: StartManage) -> None:
    """
    001 · 1. Job Creation · “Local worker detects via inotify (event-driven)”
    001 · Job Queue · “`database`: Polling only (default)”
    Decided: the database tells it: LISTEN/NOTIFY on PostgreSQL, a look at the file's commits on SQLite. Both also see
    jobs that no file belongs to, and nothing has to poll a folder.
    """
    wait_for_worker(start_manage("runworker"))
    wait_for_status(enqueue("tests.noop"), "completed")


def test_a_remote_worker_polls(far: RemoteClient) -> None:
    """
    001 · 1. Job Creation · “Remote workers poll or receive Redis notification”
    Decided: they poll; a worker on another machine reaches neither the database nor Redis.
    """
    assert far.claim() == []
    id = enqueue_remote()
    assert far.claim_one()["job_id"] == id


# -- 2. Job Claiming ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_job_that_another_worker_is_claiming_is_skipped() -> None:
    """
    001 · 2. Job Claiming · “Lock unclaimed job with `FOR UPDATE SKIP LOCKED` (PostgreSQL)”
    001 · 2. Job Claiming · “PostgreSQL: `FOR UPDATE SKIP LOCKED` prevents double-claiming”
    001 · 2. Job Claiming · “SQLite: Database-level transaction locking (single-instance only)”
    001 · Edge Cases · “First worker acquires row lock”
    001 · Edge Cases · “Second worker skips locked row and selects next job”
    001 · Edge Cases · “Limitation: SQLite uses database-level locking (single-instance only)”
    001 · Related Issues · “Local/remote worker race condition (fixed with FOR UPDATE SKIP LOCKED)”
    """
    first, second = enqueue("tests.noop").id, enqueue("tests.noop").id
    rival, other = new_worker(), new_worker()
    with transaction.atomic():
        assert claimed_ids(rival) == [first]
        late = Background(lambda: claimed_ids(other))
        if connection.vendor == "postgresql":
            assert late.result() == [second]
        else:
            late.wait_until_blocked()
    assert late.result() == [second]


def test_only_what_is_pending_can_be_claimed(videos_root: Path) -> None:
    """
    001 · 2. Job Claiming · “`video.status = 'pending'`”
    001 · 2. Job Claiming · “`job.claimed_at IS NULL`”
    001 · 2. Job Claiming · “`job.completed_at IS NULL`”
    001 · 2. Job Claiming · “Update video: `status = 'processing'`”
    """
    job, video = enqueue("tests.noop", priority=0), bare("film")
    lifecycle.complete(claim_one().lease)
    assert (stored(job).status, status_of(video)) == ("completed", "pending")
    claim_one()
    assert status_of(video) == "processing"
    assert claimed_ids(new_worker()) == []


def test_a_deleted_video_is_not_claimed(videos_root: Path, admin_client: Client) -> None:
    """
    001 · 2. Job Claiming · “`video.deleted_at IS NULL`”
    """
    video = bare("film")
    assert admin_client.delete(f"{VIDEOS}/{video.pk}").status_code == 204
    assert claimed_ids(new_worker()) == []
    assert Job.objects.get(type="videos.probe").status == "cancelled"


def test_a_claim_writes_who_when_and_until_when(far: RemoteClient) -> None:
    """
    001 · 2. Job Claiming · “`worker_id = <worker_uuid>`”
    001 · 2. Job Claiming · “`claimed_at = NOW()`”
    001 · 2. Job Claiming · “`claim_expires_at = NOW() + 30 minutes`”
    001 · 2. Job Claiming · “`started_at = NOW()` (if first claim)”
    001 · 2. Job Claiming · “`processed_by_worker_id/name` (permanent audit record)”
    """
    id = enqueue_remote()
    far.claim_one()
    job = stored(id)
    assert (job.worker_id, job.processed_by_worker_id) == (far.worker.pk, far.worker.pk)
    assert job.processed_by_worker_name == "far-away"
    assert job.claim_expires_at - job.claimed_at == timedelta(minutes=30)
    assert abs(job.claimed_at - database.read_clock()) < timedelta(seconds=30)
    assert job.started_at == job.claimed_at


def test_a_claim_without_progress_is_over_after_thirty_minutes() -> None:
    """
    001 · 2. Job Claiming · “Claims expire automatically after 30 minutes if no progress updates”
    """
    job = enqueue("tests.noop")
    claim_one()
    Job.objects.update(claim_expires_at=database.now_plus(timedelta(seconds=20)))
    recovery.sweep()
    assert stored(job).status == "processing"
    expire(job.id)
    recovery.sweep()
    assert stored(job).status == "pending"


@pytest.fixture
def prefers_gpu(declare: Declare) -> str:
    declare("here.encode", prefers="gpu")
    return str(enqueue("here.encode").id)


def test_a_cpu_worker_leaves_a_job_to_an_idle_gpu_worker(prefers_gpu: str) -> None:
    """
    001 · 2. Job Claiming · “Check GPU priority (CPU workers defer to idle GPU workers)”
    001 · 2. Job Claiming · “CPU workers check for idle GPU workers before claiming”
    001 · Edge Cases · “CPU workers check for idle GPU workers before claiming”
    001 · State Transition Tests · “GPU Priority: Test CPU/GPU worker prioritization”
    """
    gpu, cpu = new_worker(capabilities=["gpu"]), new_worker()
    assert claimed_ids(cpu) == []
    assert claimed_ids(gpu) == [prefers_gpu]


@pytest.mark.parametrize(("silent", "left_to_it"), [(50, True), (70, False)])
def test_a_gpu_worker_counts_while_it_was_heard_within_two_heartbeats(
    prefers_gpu: str, silent: float, left_to_it: bool
) -> None:
    """
    001 · 2. Job Claiming · “CPU worker defers if GPU worker heartbeated within 2× heartbeat interval”
    001 · 2. Job Claiming · “Threshold: `WORKER_HEARTBEAT_INTERVAL * 2` (default: 60 seconds)”
    001 · Edge Cases · “CPU worker defers if GPU worker heartbeated within 60 seconds (2× heartbeat interval)”
    001 · Edge Cases · “Configurable via `WORKER_HEARTBEAT_INTERVAL`”
    001 · Related Issues · “GPU worker priority starvation (fixed with idle worker check)”
    """
    new_worker(capabilities=["gpu"], last_heartbeat=database.now_minus(timedelta(seconds=silent)))
    assert claimed_ids(new_worker()) == ([] if left_to_it else [prefers_gpu])


def test_a_cpu_worker_waits_no_longer_than_the_patience_of_the_job(prefers_gpu: str) -> None:
    """
    001 · 2. Job Claiming · “Prevents GPU worker starvation while avoiding CPU worker deadlock”
    001 · Edge Cases · “After 60 seconds, CPU worker can proceed (prevents deadlock)”
    Decided: bounded by the age of the job (60 s); else an idle GPU worker that never claims would starve the others.
    """
    new_worker(capabilities=["gpu"])
    age([prefers_gpu], 61)
    assert claimed_ids(new_worker()) == [prefers_gpu]


# -- 3. Progress Updates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["progress", "complete", "fail"])
def test_only_the_worker_that_holds_a_job_reports_on_it(far: RemoteClient, verb: str) -> None:
    """
    001 · 3. Progress Updates · “Verify worker owns the job (`job.worker_id = worker.worker_id`)”
    001 · 4. Job Completion · “Verify worker owns the job and claim is valid”
    001 · 5. Job Failure · “Verify worker owns the job”
    """
    id = enqueue_remote()
    job = far.claim_one()
    assert refused(new_remote().report(verb, job), 404)
    assert (stored(id).status, stored(id).progress_percent) == ("processing", 0)


@pytest.mark.parametrize("verb", ["progress", "complete", "fail"])
def test_a_report_after_the_claim_has_expired_is_refused(far: RemoteClient, verb: str) -> None:
    """
    001 · 3. Progress Updates · “Check claim validity (`claim_expires_at > NOW()`)”
    001 · Edge Cases · “Complete/fail endpoints verify claim ownership”
    001 · Edge Cases · “If claim expired: return 409 Conflict”
    001 · Race Condition Tests · “Completion Race: Complete after claim expired”
    """
    id = enqueue_remote()
    job = far.claim_one()
    expire(id)
    assert refused(far.report(verb, job), 409, "lease_lost")
    recovery.sweep()
    assert (stored(id).status, stored(id).attempt_number) == ("pending", 1)


def test_progress_is_stored_with_its_step_and_time(far: RemoteClient) -> None:
    """
    001 · 3. Progress Updates · “`current_step = <step>` (probe, thumbnail, transcode, etc.)”
    001 · 3. Progress Updates · “`progress_percent = <0-100>`”
    001 · 3. Progress Updates · “`last_checkpoint = NOW()`”
    001 · 3. Progress Updates · “`claim_expires_at = NOW() + 30 minutes` (**claim extension**)”
    """
    id = enqueue_remote()
    job = far.claim_one()
    Job.objects.update(last_checkpoint=None)
    good(far.report("progress", job, percent=33, step="thumbnail"))
    now = stored(id)
    assert (now.current_step, now.progress_percent) == ("thumbnail", 33)
    assert now.claim_expires_at - now.last_checkpoint == timedelta(minutes=30)


def test_the_progress_of_each_quality_is_shown(videos_root: Path, admin_client: Client) -> None:
    """
    001 · 3. Progress Updates · “Update per-quality progress in `quality_progress` table”
    """
    video = accept(two_qualities())
    after_probe()
    leases = claim_stage("videos.encode", 2)
    lifecycle.report_progress([ProgressReport(lease, 50, "transcode") for lease in leases])
    shown = good(admin_client.get(f"{VIDEOS}/{video.pk}"))
    percents = {row["quality"]: row["percent"] for row in shown["qualities"]}
    assert percents["480p"] == percents["360p"] == 50


def test_a_long_job_keeps_its_claim_while_its_worker_shows_progress(far: RemoteClient) -> None:
    """
    001 · 3. Progress Updates · “Prevents timeout during long-running transcodes”
    001 · 3. Progress Updates · “Workers should send updates at least every 15 minutes”
    Decided: a heartbeat renews the claims of what it names as running, too, while each has shown progress within the
    stale timeout (30 min): a handler that hangs loses its claim although its worker lives.
    """
    id = enqueue_remote()
    job = far.claim_one()
    running = [{"job_id": id, "token": job["token"]}]
    for silent, renewed in ((15, True), (31, False)):
        Job.objects.update(
            claim_expires_at=database.now_plus(timedelta(minutes=2)),
            last_checkpoint=database.now_minus(timedelta(minutes=silent)),
        )
        far.heartbeat("busy", running=running)
        assert (seconds_left(id) > 1790) is renewed


# -- 4. Job Completion -------------------------------------------------------------------------------------------------


def test_a_completed_job_says_so_in_every_field(far: RemoteClient) -> None:
    """
    001 · 4. Job Completion · “`completed_at = NOW()`”
    001 · 4. Job Completion · “`progress_percent = 100`”
    """
    id = enqueue_remote()
    good(far.report("complete", far.claim_one(), result={"n": 1}))
    job = stored(id)
    assert (job.status, job.progress_percent, job.result) == ("completed", 100, {"n": 1})
    assert abs(job.completed_at - database.read_clock()) < timedelta(seconds=30)


def test_a_video_whose_jobs_are_done_is_ready_with_its_qualities(videos_root: Path) -> None:
    """
    001 · 4. Job Completion · “`current_step = 'finalize'`”
    001 · 4. Job Completion · “`status = 'ready'`”
    001 · 4. Job Completion · “`duration = <duration>`”
    001 · 4. Job Completion · “`error_message = NULL` (clear any previous errors)”
    001 · 4. Job Completion · “Create `video_qualities` records for each transcoded quality”
    """
    video = accept(two_qualities(50))
    lifecycle.fail(claim_one().lease, NO)
    Video.objects.update(error_message="it broke")
    make_due()
    run_due_jobs()
    made = current(video)
    video = made.video
    assert (video.status, video.duration, video.error_message) == ("ready", 2.0, "")
    assert (made.current_step, made.progress_percent) == ("finalize", 100)
    assert published(video) == ["480p", "360p"]


def test_a_remote_worker_sends_its_output_as_one_archive(
    encoder: RemoteClient, transcode: Transcode, tmp_path: Path
) -> None:
    """
    001 · 4. Job Completion · “Worker uploads HLS output as tar.gz (remote workers)”
    001 · 4. Job Completion · “Worker API extracts to `VIDEOS_DIR/{slug}/`”
    001 · 4. Job Completion · “Validates master.m3u8 and quality playlists exist”
    Decided: one archive for each chunk, in the folder of the video's version, which viewers get when it is whole; a
    job whose files are missing is not completed (409), and playlists are written and verified by the site.
    """
    job = claim(encoder)
    order = good(encoder.get(job, "order"))["order"]
    assert refused(encoder.report("complete", job), 409, "unfinished")
    files = make(order, job, storage.source(transcode.video), tmp_path / "made")
    good(encoder.archive(job, archive(*files.items())))
    good(encoder.report("complete", job))
    arrived = files_in(storage.generation(transcode))
    assert {name: arrived[name] for name in files} == files
    run_due_jobs()
    assert "480p" in (storage.generation(current(transcode.video)) / "master.m3u8").read_text()


# -- 4a. Retranscode ---------------------------------------------------------------------------------------------------


@pytest.fixture
def video(videos_root: Path) -> Video:
    """Published in two qualities, with subtitles that were recognised."""
    video = accept(two_qualities(50), slug="film")
    run_due_jobs()
    return video


def retranscode(client: Client, video: Video, **order: Any) -> dict[str, Any]:
    answer: dict[str, Any] = good(send(client, "POST", f"{VIDEOS}/{video.pk}/retranscode", order))
    return answer


def plays(video: Video) -> bool:
    """The page and the master playlist that it names."""
    page = Client().get(f"/v/{video.slug}/")
    return page.status_code == 200 and b"master.m3u8" in page.content


def test_a_video_stays_watchable_until_its_new_version_is_published(
    video: Video, admin_client: Client
) -> None:
    """
    001 · 4a. Retranscode · “it remains playable until a worker claims the job”
    001 · 4a. Retranscode · “Video status remains `ready` (still playable)”
    001 · 4a. Retranscode · “Job is marked as available for claiming”
    001 · 4a. Retranscode · “Update video status to `processing`”
    001 · 4a. Retranscode · “Videos remain watchable while queued for retranscoding”
    001 · 4a. Retranscode · “Cleanup happens atomically with job claim”
    001 · 2. Job Claiming · “(`video.status = 'ready'` AND `job.retranscode_metadata IS NOT NULL`)”
    001 · Related Issues · “Keep videos playable until re-transcode begins (fixed with deferred cleanup)”
    Decided: better than deleting at the claim, which loses a good video if the new encoding fails. It stays `ready`
    and plays the old version until the new one is published, in one transaction; the old files go after a grace.
    """
    old = files_in(storage.generation(current(video)))
    assert retranscode(admin_client, video)["status"] == "ready"
    assert claim_stage("videos.probe") != []
    assert (status_of(video), plays(video)) == ("ready", True)
    assert files_in(storage.generation(current(video))) == old


def test_what_is_to_be_made_anew_is_kept_with_the_request(video: Video, admin_client: Client) -> None:
    """
    001 · 4a. Retranscode · “Admin calls `POST /api/videos/{id}/retranscode`”
    001 · 4a. Retranscode · “System creates transcoding job with `retranscode_metadata` JSON”
    001 · 4a. Retranscode · “Clear `retranscode_metadata` field”
    Decided: a new version of the video, with the qualities that were asked for, and its jobs; a second request while
    one is active is refused (409). What was asked for stays on record with the version.
    """
    retranscode(admin_client, video, qualities=["360p"], subtitles=True)
    new = video.transcodes.get(number=2)
    assert (new.requested_qualities, new.redo_subtitles, new.status) == (["360p"], True, "pending")
    again = send(admin_client, "POST", f"{VIDEOS}/{video.pk}/retranscode")
    assert again.status_code == 409
    run_due_jobs()
    new.refresh_from_db()
    assert (new.status, new.requested_qualities) == ("published", ["360p"])


def test_chosen_qualities_are_replaced_and_the_others_taken_over(
    video: Video, admin_client: Client, encoded: list[tuple[int, tuple[str, ...]]]
) -> None:
    """
    001 · 4a. Retranscode · “"qualities_to_delete": ["1080p", "720p", "480p"]”
    001 · 4a. Retranscode · “Delete specified quality files from disk”
    001 · 4a. Retranscode · “Delete `video_qualities` records for those qualities”
    """
    retranscode(admin_client, video, qualities=["360p"])
    run_due_jobs()
    assert current(video).number == 2
    assert published(video) == ["480p", "360p"]
    assert encoded == [(1, ("360p",))]


def test_all_qualities_are_made_anew_where_none_is_chosen(
    video: Video, admin_client: Client, encoded: list[tuple[int, tuple[str, ...]]]
) -> None:
    """
    001 · 4a. Retranscode · “"retranscode_all": true”
    001 · 4a. Retranscode · “Proceed with normal transcoding”
    """
    retranscode(admin_client, video)
    run_due_jobs()
    assert (current(video).number, published(video)) == (2, ["480p", "360p"])
    assert encoded == [(1, ("480p", "360p"))]


@pytest.mark.parametrize("asked", [False, True])
def test_subtitles_are_made_anew_only_if_asked_for(
    video: Video, admin_client: Client, settings: Settings, asked: bool
) -> None:
    """
    001 · 4a. Retranscode · “Delete transcription record if `delete_transcription` is true”
    Decided: the old text stays until the new one is stored in its place.
    """
    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "pocketsphinx"}
    video.subtitles.create(language="en", source="recognised", webvtt="WEBVTT\n")
    retranscode(admin_client, video, subtitles=asked)
    after_probe()
    assert Job.objects.filter(type="videos.transcribe").exists() is asked
    assert video.subtitles.get().language == "en"


def test_a_retranscode_that_nobody_runs_or_that_fails_leaves_everything_as_it_was(
    video: Video, admin_client: Client
) -> None:
    """
    001 · 4a. Retranscode · “No orphaned files if job is never claimed (video stays ready)”
    """
    before, files = Video.objects.values().get(), files_in(storage.generation(current(video)))
    retranscode(admin_client, video)
    for _ in range(3):
        make_due()
        lifecycle.fail(claim_one().lease, NO)
    assert Video.objects.values().get() == before
    assert files_in(storage.generation(current(video))) == files
    assert plays(video)
