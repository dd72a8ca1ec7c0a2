"""Chosen qualities are encoded again, the others are taken over from the published version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs.models import Job, Status
from jobs.testing import run_due_jobs
from tests.support.videos.codes import coded, error_types
from tests.support.videos.video_failures import _quick_retries as _quick_retries
from tests.support.videos.video_failures import encoded as encoded
from tests.support.videos.video_failures import fail_quality, published, run_all
from tests.support.videos.video_failures import without_480p as without_480p
from tests.support.videos.video_site import accept, check_published, clip, current, files_in, two_qualities
from videos import intervening, storage
from videos.exceptions import ActionRefused
from videos.models import Subtitle, Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db

Encoded = list[tuple[int, tuple[str, ...]]]


@pytest.fixture
def video(videos_root: Path) -> Video:
    """Published in 480p and 360p, with subtitles and a poster."""
    video = accept(two_qualities(), slug="film")
    Subtitle.objects.create(
        video=video, language="en", source="uploaded", webvtt="WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n"
    )
    run_due_jobs()
    return video


def folder(video: Video) -> Path:
    return storage.generation(current(video))


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.glob("*.m*4*")}


def test_the_chosen_is_replaced_and_the_others_stay_byte_for_byte(video: Video, encoded: Encoded) -> None:
    old = folder(video)
    begun = intervening.retranscode(video, qualities=["360p"])
    assert begun.kept_qualities == ["480p"]
    run_due_jobs()
    new = folder(video)
    assert new != old
    assert published(video) == ["480p", "360p"]
    assert encoded == [(1, ("360p",)), (2, ("360p",))]
    assert inodes(old / "480p") == inodes(new / "480p"), "linked, not copied"
    assert not {*inodes(old / "360p").values()} & {*inodes(new / "360p").values()}
    sounds = [path.name for path in old.glob("audio_*")]
    assert all(inodes(old / name) == inodes(new / name) for name in sounds)
    assert (new / "poster.jpg").is_file()
    assert "en.m3u8" in (new / "master.m3u8").read_text()
    check_published(video)
    rows = current(video).qualities.exclude(status="skipped").values_list("quality", "status")
    assert {*rows} == {("480p", "completed"), ("360p", "completed")}


def test_a_version_that_has_kept_qualities_can_be_kept_from(video: Video, encoded: Encoded) -> None:
    """And what is asked for twice is encoded twice."""
    before = inodes(folder(video) / "480p")
    for _ in range(2):
        intervening.retranscode(video, qualities=["360p"])
        run_due_jobs()
    assert [quality for _, (quality,) in encoded] == ["360p"] * 4
    assert inodes(folder(video) / "480p") == before
    intervening.retranscode(video, qualities=["480p"])
    run_due_jobs()
    assert published(video) == ["480p", "360p"]
    assert inodes(folder(video) / "480p") != before
    check_published(video)


def test_the_segments_of_the_published_version_are_kept_whatever_the_settings_say_now(
    video: Video, settings: Settings
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "SEGMENT_SECONDS": 2, "PRESET": "superfast"}
    intervening.retranscode(video, qualities=["480p"])
    run_due_jobs()
    counts = {*current(video).renditions.values_list("segments", flat=True)}
    assert counts == {4}, "of a second each"
    plan = current(video).plan
    assert plan is not None
    assert plan["preset"] == "superfast"
    check_published(video)
    intervening.retranscode(video)
    run_due_jobs()
    assert {*current(video).renditions.values_list("segments", flat=True)} == {2}


def test_a_quality_that_was_not_there_is_added_with_the_sound_it_needs(videos_root: Path) -> None:
    """720p has sound of 128k, 360p of 96k."""
    video = accept(clip(50, (1280, 720)), qualities=["720p"])
    run_due_jobs()
    intervening.retranscode(video, qualities=["360p"])
    run_due_jobs()
    assert published(video) == ["720p", "360p"]
    assert {*current(video).renditions.filter(kind="audio").values_list("name", flat=True)} == {
        "audio_1_128k",
        "audio_1_96k",
    }
    check_published(video)


def test_all_that_are_published_is_all(video: Video) -> None:
    begun = intervening.retranscode(video, qualities=["360p", "480p"])
    assert (begun.kept_qualities, begun.based_on) == ([], None)
    run_due_jobs()
    check_published(video)


def test_without_a_published_version_the_chosen_are_all_there_is(videos_root: Path) -> None:
    video = accept(two_qualities())
    intervening.cancel(video)
    assert intervening.retranscode(video, qualities=["360p"]).kept_qualities == []
    run_due_jobs()
    assert published(video) == ["360p"]


def test_a_quality_above_the_source_is_refused(video: Video) -> None:
    with pytest.raises(ActionRefused, check=coded("above_source")):
        intervening.retranscode(video, qualities=["1080p"])
    assert video.transcodes.count() == 1


def test_a_published_version_that_has_lost_files_cannot_be_kept_from(video: Video) -> None:
    (folder(video) / "480p" / "seg_00002.m4s").unlink()
    with pytest.raises(ActionRefused, check=coded("published_damaged")):
        intervening.retranscode(video, qualities=["360p"])
    assert video.transcodes.count() == 1


def test_files_that_are_lost_later_fail_the_new_version_alone(video: Video) -> None:
    intervening.retranscode(video, qualities=["360p"])
    (folder(video) / "480p" / "seg_00002.m4s").unlink()
    run_all()
    assert error_types(job__type="videos.take_over") == {"PublishedDamaged"}
    video.refresh_from_db()
    assert (video.status, current(video).number) == (VideoStatus.READY, 1)


def test_a_plan_of_another_version_cannot_be_kept_from(video: Video) -> None:
    shown = current(video)
    shown.plan = {**(shown.plan or {}), "version": 999}
    shown.save()
    with pytest.raises(ActionRefused, check=coded("plan_unusable")):
        intervening.retranscode(video, qualities=["360p"])


def test_a_source_that_gives_fewer_pictures_now_is_refused(
    video: Video, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from videos.media import encode

    real = encode.encode_chunk

    def shorter(plan: Any, number: int, **arguments: Any) -> Any:
        made = real(plan, number, **arguments)
        return replace(made, frames=made.frames - 1) if number == plan.total_chunks else made

    intervening.retranscode(video, qualities=["360p"])
    monkeypatch.setattr(encode, "encode_chunk", shorter)
    run_all()
    assert error_types(job__type="videos.thumbnail") | error_types(job__type="videos.master_playlist") == {
        "TimelineDiffers"
    }
    assert published(video) == ["480p", "360p"]


def test_starting_over_keeps_what_was_to_be_kept(video: Video) -> None:
    from videos import generations

    begun = intervening.retranscode(video, qualities=["360p"])
    run_due_jobs(limit=2)
    again = generations.start_over(begun, reason="the GPU is gone")
    assert again is not None
    assert again.kept_qualities == ["480p"]
    run_due_jobs()
    assert published(video) == ["480p", "360p"]
    check_published(video)


def test_a_failed_one_is_retried_with_what_was_kept(
    video: Video, encoded: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    intervening.retranscode(video, qualities=["360p"])
    with pytest.MonkeyPatch.context() as broken:
        fail_quality(broken, "360p", chunk=2)
        for _ in range(3):
            run_all()
            Job.objects.filter(status=Status.WAITING, blocked=False).update(run_at="2020-01-01T00:00:00Z")
    assert Transcode.objects.get(number=2).status == TranscodeStatus.FAILED
    encoded.clear()
    intervening.retry(video)
    run_due_jobs()
    assert (current(video).number, encoded) == (2, [(2, ("360p",))])
    check_published(video)


def test_the_repair_of_a_version_with_kept_qualities_encodes_all_of_them(video: Video) -> None:
    from jobs.reconcile import reconcile

    intervening.retranscode(video, qualities=["360p"])
    run_due_jobs()
    (folder(video) / "480p" / "seg_00001.m4s").unlink()
    reconcile()
    run_due_jobs()
    assert (current(video).number, published(video)) == (3, ["480p", "360p"])
    check_published(video)


def test_a_quality_that_was_left_out_is_retried_beside_the_others(
    without_480p: Video, encoded: Encoded
) -> None:
    before = files_in(folder(without_480p) / "360p")
    intervening.retry_quality(without_480p, "480p")
    run_due_jobs()
    assert published(without_480p) == ["480p", "360p"]
    assert files_in(folder(without_480p) / "360p") == before
    assert {quality for _, quality in encoded} == {("480p",)}
    check_published(without_480p)
