"""A site of only remote workers: a web server, one `sprocket-worker`, and nobody else who could do anything."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models.functions import Now

from jobs import enqueue, lifecycle
from jobs.models import Attempt, Job, Outcome, Status, Worker, WorkerKind
from jobs.ulid import new_ulid
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.queue.workers import wait_for_status
from tests.support.remote.far_workers import Far, Server, staged
from tests.support.videos.media_clips import run_ffmpeg
from tests.support.videos.video_site import accept, check_published, clip, current, two_qualities
from tests.support.videos.video_workers import has_ended, worker_environment
from videos import intervening, storage
from videos.models import SubtitleSource, Video, VideoStatus

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

SRT = "1\n00:00:00,500 --> 00:00:01,500\nHello <b>world</b><script>alert(1)</script>\n"


@pytest.fixture
def environment(videos_root: Path) -> dict[str, str]:
    return worker_environment() | {"VIDEOS_TRANSCRIBER": "auto"}


@pytest.fixture
def far(environment: dict[str, str], start_manage: StartManage, tmp_path: Path) -> Far:
    server = Server(start_manage, environment)
    far = Far("shed", start_manage, tmp_path / "shed", server.port)
    far.start("--app", "tests.hearing")
    return far


def with_text(folder: Path) -> Path:
    (folder / "track.srt").write_text(SRT)
    path = folder / "with-text.mkv"
    run_ffmpeg(
        *("-i", two_qualities(), "-i", folder / "track.srt", "-map", "0", "-map", "1", "-c", "copy"),
        *("-metadata:s:s:0", "language=eng", path),
    )
    return path


def wait_for(video: Video, far: Far) -> None:
    def ended() -> bool:
        assert far.process.poll() is None, far.process.read_output()
        return has_ended(video)

    wait_until(ended, timeout=180)
    assert video.status == VideoStatus.READY, (video.error_message, far.process.read_output())


def test_one_far_worker_takes_videos_from_their_upload_to_their_viewers(far: Far, tmp_path: Path) -> None:
    video, spoken = accept(with_text(tmp_path)), accept(clip(50))
    wait_for(video, far)
    wait_for(spoken, far)
    wait_until(lambda: not Job.objects.active().exists(), timeout=120)
    assert not Job.objects.exclude(status=Status.COMPLETED).exists()
    check_published(video)
    check_published(spoken)
    folder = storage.generation(current(video))
    for name in ("poster.jpg", "storyboard.vtt", "storyboard_001.jpg", "captions/eng.vtt"):
        assert (folder / name).is_file(), name
    subtitle = video.subtitles.get()
    assert (subtitle.language, subtitle.source) == ("eng", SubtitleSource.EMBEDDED)
    assert "Hello <b>world</b>" in subtitle.webvtt
    assert "<script" not in subtitle.webvtt
    heard = spoken.subtitles.get()
    assert (heard.language, heard.source) == ("de", SubtitleSource.RECOGNISED)
    assert "Guten Tag" in heard.webvtt
    assert set(Attempt.objects.values_list("worker_name", flat=True)) == {"shed"}
    assert not Worker.objects.filter(kind=WorkerKind.LOCAL).exists()
    wait_until(lambda: not far.leftovers())
    wait_until(lambda: staged() == [])

    # What comes later: the files of a generation that was replaced, and of a video that was purged.
    again = intervening.retranscode(video, qualities=["360p"])
    assert again.kept_qualities == ["480p"]
    wait_until(lambda: has_ended(again), timeout=180)
    assert (current(video).number, current(video).renditions.filter(kind="video").count()) == (2, 2)
    check_published(video)
    intervening.delete(video)
    intervening.purge(video)
    wait_until(lambda: not storage.video_folder(video.pk).exists(), timeout=60)


def test_the_site_keeps_house_without_a_local_worker(
    environment: dict[str, str], start_manage: StartManage, tmp_path: Path
) -> None:
    """Due jobs become pending, leases run out, leftovers go: the web server sees to it while a worker asks for jobs."""
    environment |= {"JOBS_CLAIM_DURATION": "1s"}
    vanished = Worker.objects.create(
        name="vanished", kind=WorkerKind.REMOTE, job_types=["videos.remove_files"]
    )
    lost = enqueue("videos.remove_files", video_id=new_ulid())
    Worker.objects.filter(pk=vanished.pk).update(last_heartbeat=Now(), status="busy")
    assert len(lifecycle.claim(Worker.objects.get(pk=vanished.pk), 1)) == 1
    Job.objects.filter(pk=lost.pk).update(claim_expires_at=Now())
    delayed = enqueue("videos.remove_files", video_id=new_ulid(), delay=timedelta(seconds=1))
    leftover = storage.workplace() / "remote" / f"{new_ulid()}-1"
    leftover.mkdir(parents=True)
    server = Server(start_manage, environment)
    far = Far("shed", start_manage, tmp_path / "shed", server.port)
    far.start()
    wait_for_status(lost, "completed")
    wait_for_status(delayed, "completed")
    assert list(Attempt.objects.filter(job=lost).order_by("pk").values_list("worker_name", "outcome")) == [
        ("vanished", Outcome.LOST),
        ("shed", Outcome.COMPLETED),
    ]
    wait_until(lambda: not leftover.exists())


def test_a_far_worker_ends_when_nothing_is_left_to_do(
    environment: dict[str, str], start_manage: StartManage, tmp_path: Path
) -> None:
    server = Server(start_manage, environment)
    video = accept(clip(50))
    far = Far("shed", start_manage, tmp_path / "shed", server.port)
    assert far.start("--until-empty").wait(300) == 0, far.process.read_output()
    assert not Job.objects.active().exists()
    check_published(video)
