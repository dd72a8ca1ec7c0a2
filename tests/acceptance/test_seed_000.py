"""Seed 000, Queue Management: videos in a queue, claimed once each, recovered, reconciled, retried."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from jobs import database, enqueue, lifecycle, recovery
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Job, Status
from jobs.testing import run_due_jobs
from tests.conftest import RunManage, StartManage
from tests.support.pages.videos_api_client import VIDEOS, bare, send, upload
from tests.support.processes import wait_until
from tests.support.queue.actors import a_dead_process, claim_one, claimed_ids, new_worker, race, stored
from tests.support.queue.commands import manage
from tests.support.remote.remote_client import good
from tests.support.videos.media_clips import run_ffmpeg, spoken_english
from tests.support.videos.video_site import accept, channel, clip, current
from videos.models import Subtitle, SubtitleSource, Video, VideoStatus

pytestmark = pytest.mark.django_db

NO = FailureReport("RuntimeError", "it broke")


def status_of(video: Video) -> str:
    return str(Video.objects.get(pk=video.pk).status)


def fail_all_attempts(job: Job) -> None:
    for _ in range(job.max_attempts):
        Job.objects.filter(status=Status.WAITING).update(status=Status.PENDING)
        lifecycle.fail(claim_one().lease, NO)


# -- Objective and Core Rules ----------------------------------------------------------------------------------------


def test_a_job_passes_through_the_four_statuses(videos_root: Path) -> None:
    """
    000 · Objective · “statuses: `pending`, `processing`, `completed`, `failed`”
    Decided: a job has two more, `waiting` (scheduled, backing off, blocked) and `cancelled`; a video whose work is
    `completed` is called `ready`, as seed 001 has it.
    """
    job, other = enqueue("tests.noop"), enqueue("tests.noop", max_attempts=1)
    seen = [stored(job).status]
    lease = claim_one().lease
    seen.append(stored(job).status)
    lifecycle.complete(lease)
    lifecycle.fail(claim_one().lease, NO)
    assert [*seen, stored(job).status, stored(other).status] == [
        "pending",
        "processing",
        "completed",
        "failed",
    ]
    assert set(Status.values) - {"waiting", "cancelled"} == {*seen, "completed", "failed"}
    assert set(VideoStatus.values) == {"pending", "processing", "ready", "failed"}


def test_a_new_video_is_pending(videos_root: Path, admin_client: Client) -> None:
    """
    000 · Core Rules · “Default new videos -> `pending`.”
    """
    assert good(upload(admin_client))["video"]["status"] == "pending"


def test_a_worker_takes_the_next_pending_video_and_it_is_processing(videos_root: Path) -> None:
    """
    000 · Core Rules · “Worker picks next `pending` video atomically -> set to `processing`.”
    000 · Atomic Selection Pattern · “ORDER BY id ASC LIMIT 1”
    """
    first, second = bare("first"), bare("second")
    claim_one()
    assert (status_of(first), status_of(second)) == ("processing", "pending")
    claim_one()
    assert status_of(second) == "processing"


def test_success_with_a_stored_subtitle_completes_the_job_and_says_when(
    videos_root: Path, settings: Settings, tmp_path: Path, admin_client: Client
) -> None:
    """
    000 · Core Rules · “On success + subtitle stored -> set `completed` + `completed_at`.”
    Decided: subtitles are one job of several, so it is that job which is `completed`, and the video is `ready` when
    all is published. Recognition of speech is off unless an engine is there or named; here pocketsphinx is named.
    """
    pytest.importorskip("pocketsphinx")
    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "pocketsphinx"}
    speech = spoken_english(tmp_path / "speech.wav", 4)
    film = tmp_path / "film.mp4"
    run_ffmpeg(
        "-i", clip(100), "-i", speech, *["-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", "aac"], film
    )
    id = good(upload(admin_client, film))["video"]["id"]
    run_due_jobs()
    job = Job.objects.get(type="videos.transcribe")
    assert (job.status, job.completed_at is not None) == ("completed", True)
    assert stored(job).result["engine"] == "pocketsphinx"
    subtitle = Subtitle.objects.get(video=id)
    assert (subtitle.language, subtitle.source) == ("en", SubtitleSource.RECOGNISED)
    assert "best of times" in subtitle.webvtt
    shown = good(send(admin_client, "GET", f"{VIDEOS}/{id}"))
    assert (shown["status"], shown["subtitles"]) == ("ready", ["en"])


def test_a_failure_is_counted_recorded_and_tried_again_until_the_attempts_are_used(videos_root: Path) -> None:
    """
    000 · Core Rules · “On failure -> increment `attempts`, record `last_error`.”
    000 · Core Rules · “If attempts < `settings.max_retries` requeue to `pending`”
    000 · Core Rules · “Else mark `failed`.”
    """
    video = bare("film")
    job = Job.objects.get()
    seen = []
    for _ in range(3):
        Job.objects.filter(status=Status.WAITING).update(status=Status.PENDING)
        lifecycle.fail(claim_one().lease, NO)
        now = stored(job)
        assert now.last_error == "RuntimeError: it broke"
        seen.append((now.attempt_number, status_of(video)))
    assert seen == [(1, "pending"), (2, "pending"), (3, "failed")]


def test_the_backoff_is_in_the_row_and_another_process_knows_it(run_manage: RunManage) -> None:
    """
    000 · Core Rules · “(with backoff scheduling info kept in memory)”
    000 · Acceptance Criteria · “Queue state persisted at all times in SQLite (no in-memory only state).”
    Decided: the two contradict each other; the backoff is persisted (`run_at`, status `waiting`), so a restart
    neither forgets it nor skips it.
    """
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, NO)
    assert stored(job).run_at > database.read_clock()
    elsewhere = json.loads(run_manage("jobs", "status", "--json").stdout)
    assert (elsewhere["ready"], elsewhere["scheduled"]) == (0, 1)


def test_start_up_resets_what_a_dead_worker_held_and_nothing_else(videos_root: Path) -> None:
    """
    000 · Core Rules · “App startup: any `processing` rows reset to `pending` (crash recovery).”
    000 · Acceptance Criteria · “Startup resets `processing` -> `pending`.”
    Decided: a job under a live lease is never touched; a blanket reset is wrong with several workers.
    """
    crashed, running = bare("crashed"), bare("running")
    claim_one(a_dead_process())
    claim_one(new_worker())
    assert (status_of(crashed), status_of(running)) == ("processing", "processing")
    manage("reconcile")
    assert (status_of(crashed), status_of(running)) == ("pending", "processing")


# -- Database --------------------------------------------------------------------------------------------------------


def test_videos_are_found_by_their_status_through_an_index() -> None:
    """
    000 · DB Considerations · “Add index on `videos(status)` for faster pending selection.”
    """
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, "videos_video")
    assert any(one["index"] and one["columns"][:1] == ["status"] for one in constraints.values())


def test_an_empty_queue_gives_nothing() -> None:
    """
    000 · Atomic Selection Pattern · “If no row updated -> queue empty.”
    """
    assert claimed_ids(new_worker()) == []


# -- Reconciliation ----------------------------------------------------------------------------------------------------


@pytest.fixture
def transcribed(videos_root: Path, settings: Settings) -> Video:
    """A video whose speech is to be recognised next."""
    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "pocketsphinx"}
    video = accept(clip(50), slug="film")
    run_due_jobs(limit=1)
    Job.objects.exclude(type="videos.transcribe").filter(status=Status.PENDING).update(priority=10**6)
    return video


VTT = "WEBVTT\n\n00:00:00.500 --> 00:00:01.500\nHello\n"


def write_subtitle(video: Video) -> None:
    """By hand, as if somebody had written it into the table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO videos_subtitle (video_id, language, label, source, webvtt, stored_at)"
            f" VALUES (%s, 'en', '', 'uploaded', %s, {database.now_sql()})",
            [video.pk, VTT],
        )


@pytest.mark.django_db(transaction=True)
def test_a_worker_reconciles_when_it_starts(start_manage: StartManage, tmp_path: Path, log: str) -> None:
    """
    000 · Reconciliation Task · “Run on startup and optionally scheduled”
    000 · Definition of Done · “Reconciliation executed on app startup.”
    Decided: `manage.py reconcile` does the same at any time, for cron; nobody needs to schedule it, as the sweep
    looks for dead leases every minute.
    """
    (tmp_path / "made").touch()
    job = enqueue("work.make", {"log": log, "path": str(tmp_path / "made")}, delay=3600)
    start_manage("runworker", "--types", "tests.noop")
    wait_until(lambda: stored(job).status == "completed")


def test_a_stored_subtitle_completes_its_job_and_the_video_follows_its_jobs(transcribed: Video) -> None:
    """
    000 · Core Rules · “If a subtitle exists for a video still labeled otherwise -> update to `completed`.”
    000 · Reconciliation Task · “SET status='completed' WHERE id IN (SELECT video_id FROM subtitles)”
    Decided: a video with a subtitle but no playable version is not ready: its job for subtitles is completed, and
    the video is ready when its last job is.
    """
    write_subtitle(transcribed)
    assert manage("reconcile").code == 0
    assert Job.objects.get(type="videos.transcribe").status == "completed"
    assert status_of(transcribed) != "ready"
    run_due_jobs()
    assert current(transcribed).video.subtitles.get().webvtt == VTT


def test_processing_rows_without_a_worker_are_reset_on_demand(videos_root: Path) -> None:
    """
    000 · Reconciliation Task · “UPDATE videos SET status='pending' WHERE status='processing';”
    """
    video = bare("film")
    claim_one(a_dead_process())
    assert "1 " in manage("reconcile", "--dry-run").out
    assert status_of(video) == "processing"
    manage("reconcile")
    assert (status_of(video), Job.objects.get().status) == ("pending", "pending")


# -- Edge Cases --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_video_added_twice_at_the_same_moment_is_one_video_with_one_job(videos_root: Path) -> None:
    """
    000 · Edge Cases · “Video added twice concurrently -> UNIQUE constraint handles; queue unaffected.”
    """
    films, film = channel(), clip(50)
    added = race([lambda: accept(film, channel=films, slug="film")] * 3)
    assert len({video.pk for video in added}) == 1
    assert sorted(video.created for video in added) == [False, False, True]
    assert (Video.objects.count(), Job.objects.count()) == (1, 1)


def test_a_crash_leaves_the_row_processing_until_the_start_up_reset(videos_root: Path) -> None:
    """
    000 · Edge Cases · “Worker crash mid-processing -> row remains `processing` until startup reset.”
    Decided: until the next sweep of any living worker, which looks for dead processes every second, or the next start.
    """
    video = bare("film")
    worker = a_dead_process()
    claim_one(worker)
    assert status_of(video) == "processing"
    assert recovery.sweep()
    assert (status_of(video), Attempt.objects.get().outcome) == ("pending", "lost")


def test_a_subtitle_outranks_a_recorded_failure(transcribed: Video) -> None:
    """
    000 · Edge Cases · “Subtitle present but failure recorded -> reconciliation overrides to `completed`.”
    """
    (claimed,) = lifecycle.claim(new_worker(types=["videos.transcribe"]), 1)
    lifecycle.fail(claimed.lease, FailureReport("RuntimeError", "no", permanent=True))
    write_subtitle(transcribed)
    manage("reconcile")
    assert Job.objects.get(type="videos.transcribe").status == "completed"


def test_after_the_last_attempt_a_video_stays_failed_until_somebody_retries_it(
    videos_root: Path, admin_client: Client
) -> None:
    """
    000 · Edge Cases · “Retry exhaustion -> status `failed`; manual retry endpoint can reset to `pending` & attempts=0.”
    000 · Acceptance Criteria · “Failed videos after max retries remain `failed` until manual retry.”
    000 · Test Cases · “After max retries attempt -> status failed; retry endpoint resets to pending + attempts 0.”
    """
    video = accept(clip(50), slug="film")
    job = Job.objects.get()
    fail_all_attempts(job)
    assert (status_of(video), stored(job).attempt_number) == ("failed", 3)
    manage("reconcile")
    assert run_due_jobs() == []
    assert status_of(video) == "failed"
    assert good(send(admin_client, "POST", f"{VIDEOS}/{video.pk}/retry"))["status"] == "pending"
    assert (stored(job).status, stored(job).attempt_number) == ("pending", 0)


def test_lists_come_in_pages(admin_client: Client) -> None:
    """
    000 · Edge Cases · “Large queue scanning performance -> use indexed query; pagination if listing.”
    """
    slugs = [bare(f"film-{number}").slug for number in range(3)]
    first = good(admin_client.get(f"{VIDEOS}?limit=2"))
    second = good(admin_client.get(f"{VIDEOS}?limit=2&cursor={first['next']}"))
    assert [row["slug"] for row in [*first["videos"], *second["videos"]]] == slugs[::-1]
    assert second["next"] is None


# -- Instrumentation ---------------------------------------------------------------------------------------------------


@pytest.fixture
def four_videos(videos_root: Path) -> None:
    """Two pending, one processing, one failed; and one in another channel."""
    for slug in ("failing", "running", "a", "b"):
        bare(slug)
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no", permanent=True))
    claim_one()
    bare("elsewhere", channel=channel("other"))


COUNTS = {"pending": 2, "processing": 1, "ready": 0, "failed": 1}


@pytest.mark.usefixtures("four_videos")
def test_a_channel_is_summed_up_by_status(admin_client: Client) -> None:
    """
    000 · Instrumentation · “Provide counts per status for channel summary”
    """
    assert good(admin_client.get(f"/api/channels/{channel().pk}"))["counts"] == COUNTS


@pytest.mark.usefixtures("four_videos")
def test_the_videos_of_a_channel_are_filtered_by_status(admin_client: Client) -> None:
    """
    000 · Instrumentation · “expose `/channels/{id}/videos?status=pending` filter”
    """
    found = good(admin_client.get(f"/api/channels/{channel().pk}/videos?status=pending"))
    assert [row["slug"] for row in found["videos"]] == ["b", "a"]


@pytest.mark.usefixtures("four_videos")
def test_lists_have_counts_per_status(admin_client: Client) -> None:
    """
    000 · Definition of Done · “API list endpoints include status counts.”
    """
    assert good(admin_client.get(VIDEOS))["counts"] == {**COUNTS, "pending": 3}
    assert good(admin_client.get(f"/api/channels/{channel().pk}/videos"))["counts"] == COUNTS


# -- Acceptance Criteria, Test Cases -----------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_three_videos_claimed_in_parallel_are_claimed_once_each(videos_root: Path) -> None:
    """
    000 · Atomic Selection Pattern · “cur.execute("BEGIN IMMEDIATE")  # lock for atomicity”
    000 · Acceptance Criteria · “Only one worker can claim a given pending video.”
    000 · Definition of Done · “concurrency simulation (thread/process) showing single claimant”
    000 · Test Cases · “Insert 3 pending videos, claim in parallel -> each claimed once, no duplicates.”
    """
    videos = [bare(f"film-{number}") for number in range(3)]
    workers = [new_worker() for _ in range(6)]
    answers = race([partial(claimed_ids, worker) for worker in workers])
    claimed = [job for answer in answers for job in answer]
    assert (len(claimed), len(set(claimed))) == (3, 3)
    assert {status_of(video) for video in videos} == {"processing"}


@pytest.mark.django_db(transaction=True)
def test_a_video_marked_processing_is_pending_after_a_restart(
    videos_root: Path, start_manage: StartManage
) -> None:
    """
    000 · Test Cases · “Mark one processing; restart -> becomes pending.”
    """
    video = bare("film")
    Video.objects.filter(pk=video.pk).update(status="processing")
    start_manage("runworker", "--types", "tests.noop")
    wait_until(lambda: status_of(video) == "pending", timeout=30)


def test_a_subtitle_inserted_by_hand_completes_its_job(transcribed: Video) -> None:
    """
    000 · Test Cases · “Insert subtitle manually; run reconciliation -> status becomes completed.”
    """
    job = Job.objects.get(type="videos.transcribe")
    write_subtitle(transcribed)
    assert stored(job).status == "pending"
    manage("reconcile")
    assert (stored(job).status, stored(job).completed_at is not None) == ("completed", True)


@pytest.mark.parametrize("wrong", ["pending", "processing", "failed"])
def test_a_status_that_does_not_agree_is_repaired(videos_root: Path, wrong: str) -> None:
    """
    000 · Acceptance Criteria · “Automatic reconciliation updates mismatched statuses.”
    """
    ready = accept(clip(50), slug="ready")
    run_due_jobs()
    waiting = accept(clip(50), slug="waiting")
    assert (status_of(ready), status_of(waiting)) == ("ready", "pending")
    Video.objects.update(status=wrong)
    assert manage("check_invariants").code == 1
    manage("reconcile")
    assert (status_of(ready), status_of(waiting)) == ("ready", "pending")
    assert manage("check_invariants").code == 0
