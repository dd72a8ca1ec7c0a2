"""What goes wrong: a quality, the source, the disk, a stage; and what a retry then does again."""

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import PermanentFailure, lifecycle, registry
from jobs.exceptions import TransitionRefused
from jobs.models import Job, Status
from jobs.reconcile import reconcile
from jobs.testing import Run, run_due_jobs
from tests.actors import race_outcomes
from tests.video_site import accept, check_published, clip, current, files_in, only_transcode, two_qualities
from videos import intervening, manifests, pipeline, storage
from videos.exceptions import ActionRefused, AlreadyTranscoding
from videos.media import encode, examine
from videos.media.exceptions import FfmpegFailed
from videos.models import QualityStatus, Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quick_retries(settings: Settings) -> None:
    settings.JOBS = {**settings.JOBS, "BACKOFF_BASE": "1ms", "BACKOFF_CAP": "2ms"}


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """Every chunk that ffmpeg has finished, with the qualities it was encoded in."""
    done: list[tuple[int, tuple[str, ...]]] = []
    real = encode.encode_chunk

    def noted(plan: Any, number: int, **arguments: Any) -> Any:
        made = real(plan, number, **arguments)
        done.append((number, tuple(r.name for r in plan.renditions)))
        return made

    monkeypatch.setattr(encode, "encode_chunk", noted)
    return done


@pytest.fixture
def break_stage() -> Iterator[Callable[[str], None]]:
    """`break_stage("videos.audio")` lets every job of this type fail, for good."""
    before = dict(registry._types)

    def broken(job: Any, **payload: Any) -> None:
        raise PermanentFailure("broken by the test")

    def break_stage(name: str) -> None:
        registry._types[name] = replace(registry.get(name), handler=broken, artifact=None)

    yield break_stage
    registry._types.clear()
    registry._types.update(before)


def run_all() -> list[Run]:
    return run_due_jobs(raise_errors=False)


def fail_quality(monkeypatch: pytest.MonkeyPatch, quality: str, *, chunk: int | None = None) -> None:
    """Wherever this quality is among those that are encoded (of this chunk), ffmpeg fails."""
    real = encode.encode_chunk

    def fails(plan: Any, number: int, **arguments: Any) -> Any:
        if any(r.name == quality for r in plan.renditions) and chunk in (None, number):
            raise FfmpegFailed(
                "ffmpeg ended with exit status 1.", returncode=1, stderr=f"{quality}: too hard"
            )
        return real(plan, number, **arguments)

    monkeypatch.setattr(encode, "encode_chunk", fails)


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
        for _ in range(3):
            run_due_jobs(raise_errors=False)
            Job.objects.filter(status=Status.WAITING, blocked=False).update(run_at="2020-01-01T00:00:00Z")
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
        for _ in range(3):
            run_due_jobs(raise_errors=False)
            Job.objects.filter(status=Status.WAITING, blocked=False).update(run_at="2020-01-01T00:00:00Z")
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    assert "480p cannot be encoded" in video.error_message
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


def run_out_of_attempts() -> None:
    for _ in range(3):
        run_due_jobs(raise_errors=False)
        Job.objects.filter(status=Status.WAITING, blocked=False).update(run_at="2020-01-01T00:00:00Z")


def states(video: Video) -> dict[str, tuple[str, int]]:
    rows = only_transcode(video).qualities.filter(quality__in=["480p", "360p"])
    return {row.quality: (row.status, row.segments_completed) for row in rows}


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


def test_a_job_of_a_deleted_video_is_not_retried(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs(limit=1)
    intervening.delete(video)
    cancelled = Job.objects.filter(type="videos.encode", status=Status.CANCELLED)
    with pytest.raises(TransitionRefused, match="restore it first"):
        lifecycle.retry(list(cancelled.values_list("pk", flat=True)))
    assert not only_transcode(video).is_active
    assert not Job.objects.active().exclude(type="videos.remove_files").exists()


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
    assert "The source is gone" in video.error_message
    with pytest.raises(ActionRefused, match="is gone"):
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
        hostile.setattr(examine, "CHILD", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        (run,) = run_due_jobs(raise_errors=False, limit=1)
        assert (run.type, run.status) == ("videos.probe", Status.WAITING)
        assert "it is damaged, or made to do harm" in run.error
        for _ in range(2):
            Job.objects.filter(pk=run.id).update(run_at="2020-01-01T00:00:00Z")
            run_due_jobs(raise_errors=False, limit=1)
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    assert "it is damaged, or made to do harm" in video.error_message
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
    assert "There is no space left on the disk" in job.last_error
    video.refresh_from_db()
    assert video.status == VideoStatus.PENDING


@pytest.mark.parametrize("stage", [stage.type for stage in pipeline.in_order() if stage.critical])
def test_a_retranscode_that_fails_at_any_stage_leaves_the_published_version_as_it_was(
    videos_root: Path, break_stage: Callable[[str], None], stage: str
) -> None:
    video = accept(clip(50))
    run_due_jobs()
    before = Video.objects.values().get()
    generation = storage.generation(current(video))
    files = files_in(generation)
    break_stage(stage)
    failed = intervening.retranscode(video)
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


def test_a_retranscode_replaces_the_old_generation_after_a_grace(
    videos_root: Path, settings: Settings
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "GENERATION_GRACE": "10ms"}
    video = accept(clip(50))
    run_due_jobs()
    old = current(video)
    first_published = video.published_at
    video.visibility = "unlisted"
    video.save()
    intervening.retranscode(video)
    video.refresh_from_db()
    assert (video.status, video.current) == (VideoStatus.READY, old)
    run_due_jobs(ahead=timedelta(seconds=1))
    video.refresh_from_db()
    assert current(video).number == 2
    assert (video.published_at, video.visibility) == (first_published, "unlisted")
    old.refresh_from_db()
    assert old.status == TranscodeStatus.RETIRED
    assert old.files_removed_at is not None
    assert sorted(path.name for path in storage.video_folder(video.pk).iterdir()) == ["g2", "source"]
    check_published(video)


def test_only_the_chosen_qualities_are_made(videos_root: Path) -> None:
    video = accept(two_qualities(), qualities=["360p"])
    run_due_jobs()
    assert [r.name for r in current(video).renditions.filter(kind="video")] == ["360p"]


def test_a_second_retranscode_is_refused_while_one_is_active(videos_root: Path) -> None:
    video = accept(clip(50))
    with pytest.raises(AlreadyTranscoding, match="generation 1"):
        intervening.retranscode(video)
    run_due_jobs()
    intervening.retranscode(video)
    with pytest.raises(AlreadyTranscoding, match="generation 2"):
        intervening.retranscode(video)


@pytest.mark.django_db(transaction=True)
def test_of_two_retranscodes_at_the_same_moment_one_is_refused(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    before, generation = Video.objects.values().get(), storage.generation(current(video))
    files = files_in(generation)
    outcomes = race_outcomes([lambda: intervening.retranscode(video)] * 3)
    assert sum(isinstance(outcome, AlreadyTranscoding) for outcome in outcomes) == 2
    (begun,) = (outcome for outcome in outcomes if isinstance(outcome, Transcode))
    assert Transcode.objects.active().get() == begun
    assert Video.objects.values().get() == before
    run_due_jobs()
    assert current(video) == begun
    assert files_in(generation) == files, "those who still watch it get it whole"
    check_published(video)


def test_a_deleted_video_has_no_active_job_and_a_restored_one_goes_on(
    videos_root: Path, encoded: list[tuple[int, tuple[str, ...]]]
) -> None:
    video = accept(two_qualities())
    run_due_jobs(limit=2)
    intervening.delete(video)
    assert video.deleted_at is not None
    assert not Job.objects.active().exclude(type="videos.remove_files").exists()
    assert run_all() == []
    intervening.restore(video)
    run_all()
    check_published(video)
    assert sorted(number for number, _ in encoded) == [1, 2]


def test_a_purged_video_leaves_nothing(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    intervening.purge(video)
    assert not Video.objects.exists()
    run_due_jobs()
    assert files_in(videos_root) == {}


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


@pytest.fixture
def without_480p(videos_root: Path, settings: Settings) -> Video:
    """A video that was published although one of its two qualities had failed."""
    settings.VIDEOS = {**settings.VIDEOS, "CRITICAL_QUALITIES": "360p"}
    video = accept(two_qualities())
    with pytest.MonkeyPatch.context() as broken:
        fail_quality(broken, "480p")
        run_all()
    assert published(video) == ["360p"]
    return video


def published(video: Video) -> list[str]:
    return [r.name for r in current(video).renditions.filter(kind="video")]


def test_a_quality_that_was_left_out_is_made_by_a_new_generation_and_nothing_else_is_encoded(
    without_480p: Video,
    encoded: list[tuple[int, tuple[str, ...]]],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    video, first = without_480p, current(without_480p)
    files = files_in(storage.generation(first))
    monkeypatch.setattr(encode, "encode_audio", lambda *args, **kwargs: pytest.fail("the sound was there"))
    with pytest.raises(ActionRefused, match="360p of"):
        intervening.retry_quality(video, "360p")
    intervening.retry_quality(video, "480p")
    with pytest.raises(ActionRefused, match="has not failed"):
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
    assert sorted(encoded) == [(1, ("480p", "360p")), (2, ("480p",))]
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


@pytest.mark.parametrize("why", ["other settings", "not to be kept", "a plain retranscode"])
def test_all_is_encoded_again_where_nothing_fits(
    without_480p: Video, encoded: list[tuple[int, tuple[str, ...]]], settings: Settings, why: str
) -> None:
    if why == "other settings":
        settings.VIDEOS = {**settings.VIDEOS, "PRESET": "superfast"}
    elif why == "not to be kept":
        settings.VIDEOS = {**settings.VIDEOS, "KEEP_COMPLETED_QUALITIES": False}
    if why == "a plain retranscode":
        intervening.retranscode(without_480p)
    else:
        intervening.retry_quality(without_480p, "480p")
    run_all()
    assert sorted(encoded) == [(1, ("480p", "360p")), (2, ("480p", "360p"))]
    check_published(without_480p)


def test_a_replaced_generation_is_left_alone_by_reconcile(videos_root: Path) -> None:
    """Its chunk is finished on disk although its record has failed; that must not bring it back."""
    video = accept(clip(50))
    run_due_jobs(limit=2)
    Job.objects.filter(type="videos.encode").update(status=Status.PENDING, completed_at=None)
    intervening.cancel(video)
    newer = intervening.retranscode(video)
    assert [finding for finding in reconcile() if finding.type == "videos.encode"] == []
    run_all()
    assert current(video) == newer
