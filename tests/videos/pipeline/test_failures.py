"""What goes wrong: the source, the disk, a stage; and what is left of it."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs.models import Job, Status
from jobs.testing import run_due_jobs
from tests.support.videos.codes import coded, error_types
from tests.support.videos.video_failures import _quick_retries as _quick_retries
from tests.support.videos.video_failures import break_stage as break_stage
from tests.support.videos.video_failures import encoded as encoded
from tests.support.videos.video_failures import run_all
from tests.support.videos.video_site import (
    accept,
    check_published,
    clip,
    current,
    files_in,
    only_transcode,
    two_qualities,
)
from videos import intervening, manifests, pipeline, storage
from videos.exceptions import ActionRefused
from videos.media import contained, encode
from videos.media.examine import TOO_MUCH
from videos.models import TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db


def test_a_source_that_is_gone_is_a_clear_failure_and_its_return_lets_a_retry_go_on(
    videos_root: Path, encoded: list[tuple[int, tuple[str, ...]]]
) -> None:
    video = accept(two_qualities())
    run_due_jobs(limit=2)
    source = storage.source(video)
    kept = source.rename(source.with_name("elsewhere"))
    run_all()
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    assert error_types() == {"SourceGone"}
    assert str(source) in video.error_message
    with pytest.raises(ActionRefused, check=coded("source_gone")):
        intervening.retry(video)
    kept.rename(source)
    finished = list(encoded)
    intervening.retry(video)
    run_all()
    check_published(video)
    assert sorted(encoded) == [(1, ("480p", "360p")), (2, ("480p", "360p"))]
    assert encoded[: len(finished)] == finished


def test_a_process_that_dies_looking_at_the_source_harms_nobody_and_is_tried_again(
    videos_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = accept(clip(50))
    with pytest.MonkeyPatch.context() as hostile:
        hostile.setattr(contained, "CHILD", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        (run,) = run_due_jobs(raise_errors=False, limit=1)
        assert (run.type, run.status) == ("videos.probe", Status.WAITING)
        assert error_types(job=run.id) == {"LookFailed"}
        for _ in range(2):
            Job.objects.filter(pk=run.id).update(run_at="2020-01-01T00:00:00Z")
            run_due_jobs(raise_errors=False, limit=1)
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    assert error_types() == {"LookFailed"}
    assert video.error_message == TOO_MUCH
    intervening.retry(video)
    run_all()
    check_published(video)


def test_a_full_disk_is_a_clear_failure(videos_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    video = accept(clip())
    monkeypatch.setattr(encode, "encode_chunk", full)
    run_due_jobs(raise_errors=False, limit=2)
    job = Job.objects.get(type="videos.encode", attempt_number=1)
    assert job.status == Status.WAITING, "it is tried again: somebody may have made room"
    assert error_types(job=job.pk) == {"DiskFull"}
    video.refresh_from_db()
    assert video.status == VideoStatus.PENDING


@pytest.mark.parametrize("stage", [stage.type for stage in pipeline.in_order() if stage.critical])
def test_a_retranscode_that_fails_at_any_stage_leaves_the_published_version_as_it_was(
    videos_root: Path, break_stage: Callable[[str], None], stage: str
) -> None:
    video = accept(two_qualities(50))
    run_due_jobs()
    before = Video.objects.values().get()
    generation = storage.generation(current(video))
    files = files_in(generation)
    break_stage(stage)
    failed = intervening.retranscode(video, qualities=["360p"] if stage == "videos.take_over" else [])
    run_all()
    failed.refresh_from_db()
    assert failed.status == TranscodeStatus.FAILED
    assert failed.error == "broken by the test"
    assert Video.objects.values().get() == before
    assert files_in(generation) == files
    check_published(video)


def test_a_failed_thumbnail_fails_nothing_else(videos_root: Path, break_stage: Callable[[str], None]) -> None:
    break_stage("videos.thumbnail")
    video = accept(clip(50))
    run_all()
    check_published(video)
    assert current(video).number == 1


def test_without_keeping_completed_qualities_the_files_of_a_failed_transcode_go_at_once(
    videos_root: Path, settings: Settings, break_stage: Callable[[str], None]
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "KEEP_COMPLETED_QUALITIES": False}
    break_stage("videos.master_playlist")
    video = accept(clip(50))
    run_all()
    assert not storage.generation(only_transcode(video)).exists()
    assert storage.source(video).exists()
    assert intervening.retry(video).number == 2


def test_with_keeping_them_they_stay_for_a_while(
    videos_root: Path, settings: Settings, break_stage: Callable[[str], None]
) -> None:
    break_stage("videos.master_playlist")
    video = accept(clip(50))
    run_all()
    transcode = only_transcode(video)
    assert manifests.read(storage.generation(transcode), manifests.chunk_name(1))
    assert Job.objects.filter(type="videos.remove_files", status=Status.WAITING).count() == 1
    settings.VIDEOS = {**settings.VIDEOS, "FAILED_GENERATION_GRACE": "1ms"}
    Job.objects.filter(type="videos.remove_files").update(run_at="2020-01-01T00:00:00Z")
    run_all()
    assert not storage.generation(transcode).exists()
    assert intervening.retry(video).number == 2
