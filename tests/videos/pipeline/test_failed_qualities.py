"""A quality that fails: alone or critical, what a retry encodes again, and what it does not."""

import errno
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import lifecycle
from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.support.videos.codes import coded, error_types
from tests.support.videos.video_failures import _quick_retries as _quick_retries
from tests.support.videos.video_failures import encoded as encoded
from tests.support.videos.video_failures import fail_quality, published, run_all, run_out_of_attempts, states
from tests.support.videos.video_failures import without_480p as without_480p
from tests.support.videos.video_site import (
    accept,
    check_published,
    current,
    files_in,
    only_transcode,
    two_qualities,
)
from videos import intervening, storage
from videos.exceptions import ActionRefused
from videos.media import encode
from videos.media.exceptions import FfmpegFailed
from videos.models import QualityStatus, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("quality", ["480p", "360p"])
def test_a_quality_that_fails_alone_is_left_out(videos_root: Path, settings: Settings, quality: str) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "CRITICAL_QUALITIES": "none"}
    video = accept(two_qualities())
    run_due_jobs(limit=1)
    transcode = only_transcode(video)
    assert transcode.plan is not None
    for rendition in transcode.plan["renditions"]:
        if rendition["name"] == quality:
            rendition["profile"] = "nonsense"  # which the real ffmpeg refuses
    transcode.save()
    run_all()
    video.refresh_from_db()
    assert video.status == VideoStatus.READY
    others = [name for name in ("480p", "360p") if name != quality]
    assert [r.name for r in current(video).renditions.filter(kind="video")] == others
    row = transcode.qualities.get(quality=quality)
    assert row.status == QualityStatus.FAILED
    assert "nonsense" in row.error_message
    assert quality not in (storage.generation(transcode) / "master.m3u8").read_text()
    check_published(video, without=(quality,))


@pytest.mark.parametrize("quality", ["480p", "360p"])
def test_a_critical_quality_that_fails_alone_leaves_the_published_version_as_it_was(
    videos_root: Path, quality: str
) -> None:
    video = accept(two_qualities(50))
    run_due_jobs()
    before, files = Video.objects.values().get(), files_in(storage.generation(current(video)))
    again = intervening.retranscode(video)
    with pytest.MonkeyPatch.context() as broken:
        fail_quality(broken, quality)
        run_out_of_attempts()
    again.refresh_from_db()
    assert again.status == TranscodeStatus.FAILED
    assert again.qualities.get(quality=quality).status == QualityStatus.FAILED
    assert Video.objects.values().get() == before
    assert files_in(storage.generation(current(video))) == files
    check_published(video)


def test_a_critical_quality_that_fails_fails_the_transcode_and_a_retry_encodes_only_that(
    videos_root: Path, encoded: list[tuple[int, tuple[str, ...]]]
) -> None:
    video = accept(two_qualities())
    with pytest.MonkeyPatch.context() as broken:
        fail_quality(broken, "480p")
        run_out_of_attempts()
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    assert error_types(job__status="failed") == {"QualityFailed"}
    assert "480p" in video.error_message
    assert "too hard" in video.error_message
    transcode = only_transcode(video)
    assert transcode.qualities.get(quality="480p").status == QualityStatus.FAILED
    assert transcode.qualities.get(quality="360p").status == QualityStatus.PENDING
    assert sorted(encoded) == [(1, ("360p",)), (2, ("360p",))]
    encoded.clear()
    intervening.retry(video)
    video.refresh_from_db()
    assert video.status == VideoStatus.PENDING
    run_all()
    assert sorted(encoded) == [(1, ("480p",)), (2, ("480p",))]
    assert current(video).number == 1
    check_published(video)


@pytest.mark.parametrize("way", ["video", "job"])
def test_after_a_retry_a_quality_has_the_chunks_that_were_finished_while_it_counted_as_failed(
    videos_root: Path, encoded: list[tuple[int, tuple[str, ...]]], way: str
) -> None:
    video = accept(two_qualities())
    run_due_jobs(limit=1)
    first = Job.objects.filter(type="videos.encode", payload__chunk=1)
    with pytest.MonkeyPatch.context() as broken:
        fail_quality(broken, "480p", chunk=1)
        for _ in range(3):
            first.update(priority=0, run_at="2020-01-01T00:00:00Z")
            run_due_jobs(limit=1, raise_errors=False)
        assert states(video) == {"480p": ("failed", 0), "360p": ("pending", 0)}
        run_all()
    assert states(video) == {"480p": ("failed", 0), "360p": ("pending", 2)}
    if way == "video":
        intervening.retry(video)
    else:
        lifecycle.retry(first.get().pk)
    assert states(video) == {"480p": ("pending", 2), "360p": ("pending", 2)}
    run_all()
    assert states(video) == {"480p": ("completed", 4), "360p": ("completed", 4)}
    assert sorted(encoded) == [(1, ("360p",)), (1, ("480p",)), (2, ("480p", "360p"))]
    check_published(video)


def test_a_retry_of_something_else_does_not_ask_for_a_quality_that_was_given_up(
    videos_root: Path, settings: Settings
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "CRITICAL_QUALITIES": "360p"}
    video = accept(two_qualities())

    def mute(*args: Any, **more: Any) -> None:
        raise FfmpegFailed("ffmpeg ended with exit status 1.", returncode=1, stderr="no sound")

    with pytest.MonkeyPatch.context() as broken:
        fail_quality(broken, "480p")
        broken.setattr(encode, "encode_audio", mute)
        run_out_of_attempts()
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    intervening.retry(video)
    assert states(video)["480p"][0] == "failed"
    run_all()
    check_published(video, without=("480p",))


def test_a_quality_that_was_left_out_is_made_by_a_new_generation_and_nothing_else_is_encoded(
    without_480p: Video,
    encoded: list[tuple[int, tuple[str, ...]]],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    video, first = without_480p, current(without_480p)
    files = files_in(storage.generation(first))
    monkeypatch.setattr(encode, "encode_audio", lambda *args, **kwargs: pytest.fail("the sound was there"))
    with pytest.raises(ActionRefused, match="360p", check=coded("nothing_failed")):
        intervening.retry_quality(video, "360p")
    intervening.retry_quality(video, "480p")
    with pytest.raises(ActionRefused, check=coded("nothing_failed")):
        intervening.retry_quality(video, "480p")
    run_all()
    assert sorted(encoded) == [(1, ("480p",)), (2, ("480p",))]
    assert published(video) == ["480p", "360p"]
    assert files_in(storage.generation(first)) == files
    settings.VIDEOS = {**settings.VIDEOS, "GENERATION_GRACE": "1ms"}
    run_due_jobs(ahead=timedelta(hours=2))
    assert not storage.generation(first).exists()
    check_published(video)


def test_what_is_not_whole_any_more_is_encoded_again(
    without_480p: Video, encoded: list[tuple[int, tuple[str, ...]]]
) -> None:
    video = without_480p
    (storage.generation(current(video)) / "360p" / "seg_00001.m4s").write_bytes(b"damaged")
    intervening.retry_quality(video, "480p")
    run_all()
    assert sorted(encoded) == [(1, ("480p", "360p")), (2, ("480p", "360p"))]
    check_published(video)


def test_where_there_are_no_links_files_are_copied(
    without_480p: Video, encoded: list[tuple[int, tuple[str, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    intervening.retry_quality(without_480p, "480p")
    run_all()
    assert sorted(encoded) == [(1, ("480p",)), (2, ("480p",))]
    check_published(without_480p)


@pytest.mark.parametrize("why", ["not to be kept", "a plain retranscode"])
def test_all_is_encoded_again_where_nothing_fits(
    without_480p: Video, encoded: list[tuple[int, tuple[str, ...]]], settings: Settings, why: str
) -> None:
    if why == "not to be kept":
        settings.VIDEOS = {**settings.VIDEOS, "KEEP_COMPLETED_QUALITIES": False}
    if why == "a plain retranscode":
        intervening.retranscode(without_480p)
    else:
        intervening.retry_quality(without_480p, "480p")
    run_all()
    assert sorted(encoded) == [(1, ("480p", "360p")), (2, ("480p", "360p"))]
    check_published(without_480p)
