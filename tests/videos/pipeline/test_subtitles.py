"""Subtitles: from the source's own tracks, uploaded, recognised; and the tests that seed 000 asks for."""

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import lifecycle
from jobs.exceptions import PermanentFailure
from jobs.lifecycle import FailureReport
from jobs.models import Job, Status, Worker
from jobs.reconcile import reconcile
from jobs.testing import run_due_jobs
from tests.support.queue.actors import new_worker, race, stored
from tests.support.videos.codes import coded
from tests.support.videos.media_clips import run_ffmpeg
from tests.support.videos.video_site import accept, clip, current
from videos import intervening, storage, subtitling
from videos.exceptions import UploadRefused
from videos.media import recognition
from videos.media.recognition import Heard
from videos.media.webvtt import Cue
from videos.models import Subtitle, SubtitleSource, Video, VideoStatus

pytestmark = pytest.mark.django_db

SRT = b"1\n00:00:00,500 --> 00:00:01,500\nHello <b>world</b><script>alert(1)</script>\n"


def with_text_track(folder: Path, *, language: str = "eng") -> Path:
    (folder / "track.srt").write_bytes(SRT)
    path = folder / "with-text.mkv"
    run_ffmpeg(
        *("-i", clip(50), "-i", folder / "track.srt", "-map", "0", "-map", "1", "-c", "copy"),
        *("-metadata:s:s:0", f"language={language}", path),
    )
    return path


def test_text_tracks_of_the_source_are_published(videos_root: Path, tmp_path: Path) -> None:
    video = accept(with_text_track(tmp_path))
    run_due_jobs()
    subtitle = video.subtitles.get()
    assert (subtitle.language, subtitle.source) == ("eng", SubtitleSource.EMBEDDED)
    assert "Hello" in subtitle.webvtt
    assert "<script" not in subtitle.webvtt
    folder = storage.generation(current(video))
    assert 'URI="captions/eng.m3u8"' in (folder / "master.m3u8").read_text()
    assert "Hello" in (folder / "captions" / "eng.vtt").read_text()


def test_uploaded_subtitles_are_written_anew(videos_root: Path) -> None:
    video = accept(clip(50))
    subtitle = subtitling.upload(video, SRT, language="pt-BR", label="Português")
    assert subtitle.webvtt.startswith("WEBVTT")
    assert "<script" not in subtitle.webvtt
    again = subtitling.upload(video, SRT.replace(b"Hello", b"Goodbye"), language="pt-BR")
    assert again.pk == subtitle.pk
    with pytest.raises(UploadRefused, check=coded("bad_language")):
        subtitling.upload(video, SRT, language="../etc")
    with pytest.raises(UploadRefused, check=coded("no_subtitles")):
        subtitling.upload(video, b"nothing", language="en")


def test_what_somebody_has_uploaded_is_not_replaced(videos_root: Path, tmp_path: Path) -> None:
    video = accept(with_text_track(tmp_path))
    subtitling.upload(video, SRT.replace(b"Hello", b"Better"), language="eng")
    run_due_jobs()
    assert "Better" in video.subtitles.get().webvtt


def test_speech_is_recognised_where_nobody_has_written_it_down(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "pocketsphinx"}
    video = accept(clip(50))
    runs = {run.type: run for run in run_due_jobs()}
    assert runs["videos.transcribe"].result["engine"] == "pocketsphinx"
    current(video)


@pytest.mark.parametrize(("said", "stored_as"), [("", "de"), ("eng", "eng")])
def test_recognised_speech_has_the_language_of_its_track_or_the_one_that_was_heard(
    videos_root: Path,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    stored_as: str,
) -> None:
    class HearsGerman(recognition.PocketSphinx):
        def listen(self, sound: Path, **options: Any) -> Heard:
            return Heard([Cue(start=Fraction(0), end=Fraction(1), text="Guten Tag")], language="de")

    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "auto"}
    monkeypatch.setattr(recognition, "available", lambda *args, **kwargs: HearsGerman())
    source = tmp_path / "speech.mkv"
    run_ffmpeg("-i", clip(50), "-map", "0", "-c", "copy", "-metadata:s:a:0", f"language={said}", source)
    video = accept(source)
    run_due_jobs()
    subtitle = video.subtitles.get()
    assert (subtitle.language, subtitle.source) == (stored_as, SubtitleSource.RECOGNISED)


def test_an_engine_that_is_not_there_is_named_and_harms_nothing_else(
    videos_root: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in recognition.MODEL_FILES:
        (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, "faster_whisper", None)  # as if it were not installed
    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "whisper", "WHISPER_MODEL": str(tmp_path)}
    video = accept(clip(50))
    run_due_jobs(raise_errors=False)
    current(video)
    job = Job.objects.get(type="videos.transcribe")
    assert job.status == Status.FAILED
    assert "pip install faster-whisper" in job.last_error


# -- seed 000 --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_three_pending_videos_are_claimed_once_each(videos_root: Path) -> None:
    for number in range(3):
        accept(clip(50), slug=f"video-{number}")
    workers = [new_worker() for _ in range(6)]
    claims = race([lambda worker=worker: lifecycle.claim(worker, 1) for worker in workers])  # type: ignore[misc]
    claimed = [job.lease.job_id for jobs in claims for job in jobs]
    assert len(claimed) == len(set(claimed)) == 3
    assert set(Video.objects.values_list("status", flat=True)) == {VideoStatus.PROCESSING}


def test_a_restart_returns_a_processing_video_to_pending(videos_root: Path) -> None:
    video = accept(clip(50))
    worker = new_worker()
    lifecycle.claim(worker, 1)
    video.refresh_from_db()
    assert video.status == VideoStatus.PROCESSING
    Worker.objects.filter(pk=worker.pk).update(stopped_at="2020-01-01T00:00:00Z")  # it said goodbye
    reconcile()
    video.refresh_from_db()
    assert video.status == VideoStatus.PENDING


@pytest.mark.parametrize("status", ["waiting", "pending", "failed", "cancelled"])
def test_a_stored_subtitle_completes_its_job(videos_root: Path, settings: Settings, status: str) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "auto"}
    video = accept(clip(50))
    run_due_jobs(limit=1)
    job = Job.objects.get(type="videos.transcribe")
    Job.objects.exclude(pk=job.pk).filter(status=Status.PENDING).update(priority=10**6)
    if status == "failed":
        worker = new_worker(types=["videos.transcribe"])
        (claimed,) = lifecycle.claim(worker, 1)
        lifecycle.fail(claimed.lease, FailureReport.of(PermanentFailure("no"), permanent=True))
    elif status == "cancelled":
        lifecycle.cancel(job.pk)
    elif status == "waiting":
        Job.objects.filter(pk=job.pk).update(status=Status.WAITING, run_at="2100-01-01T00:00:00Z")
    assert stored(job).status == status
    reconcile()
    assert stored(job).status == status, "there is no subtitle yet"
    Subtitle.objects.create(video=video, language="en", source=SubtitleSource.UPLOADED, webvtt="WEBVTT\n")
    reconcile()
    assert stored(job).status == Status.COMPLETED
    reconcile()
    assert stored(job).status == Status.COMPLETED


def test_after_its_last_attempt_a_video_has_failed_until_somebody_retries_it(videos_root: Path) -> None:
    video = accept(clip(50))
    job = Job.objects.get()
    for _ in range(job.max_attempts):
        Job.objects.filter(status=Status.WAITING).update(status=Status.PENDING)
        (claimed,) = lifecycle.claim(new_worker(), 1)
        lifecycle.fail(claimed.lease, FailureReport("RuntimeError", "it broke"))
    video.refresh_from_db()
    assert (video.status, video.error_message) == (VideoStatus.FAILED, "it broke")
    assert run_due_jobs() == [], "it stays failed"
    intervening.retry(video)
    video.refresh_from_db()
    assert (video.status, video.error_message) == (VideoStatus.PENDING, "")
    assert (stored(job).status, stored(job).attempt_number) == (Status.PENDING, 0)
    run_due_jobs()
    current(video)
