"""A site of only remote workers: a web server, one `sprocket-worker`, and nobody else who could do anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.models import Attempt, Job, Status, Worker, WorkerKind
from tests.conftest import StartManage
from tests.far_workers import Far, Server, staged
from tests.media_clips import run_ffmpeg
from tests.support import wait_until
from tests.video_site import accept, check_published, clip, current, two_qualities
from tests.video_workers import has_ended, worker_environment
from videos import intervening, storage
from videos.models import SubtitleSource, Video, VideoStatus

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

SRT = "1\n00:00:00,500 --> 00:00:01,500\nHello <b>world</b><script>alert(1)</script>\n"


@pytest.fixture
def environment(videos_root: Path) -> dict[str, str]:
    return worker_environment() | {"VIDEOS_TRANSCRIBER": "auto"}


@pytest.fixture
def far(
    environment: dict[str, str], start_manage: StartManage, tmp_path: Path, request: pytest.FixtureRequest
) -> Far:
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
    again = intervening.retranscode(video)
    wait_until(lambda: has_ended(again), timeout=180)
    assert current(video).number == 2
    check_published(video)
    intervening.delete(video)
    intervening.purge(video)
    wait_until(lambda: not storage.video_folder(video.pk).exists(), timeout=60)


def test_a_source_with_a_hole_and_one_that_breaks_off_are_published_as_locally(
    far: Far, tmp_path: Path
) -> None:
    whole = clip(300, (640, 360), (1000,), "ts").read_bytes()
    broken = tmp_path / "broken.ts"
    packets = len(whole) // 188
    broken.write_bytes(whole[: packets * 2 // 3 * 188])
    video = accept(broken)
    wait_for(video, far)
    check_published(video, sync=False)
