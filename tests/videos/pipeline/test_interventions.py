"""What people do to a video: transcode it anew, delete it, restore it, purge it."""

from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs import lifecycle
from jobs.models import Job, Status
from jobs.reconcile import reconcile
from jobs.testing import run_due_jobs
from tests.support.queue.actors import race_outcomes
from tests.support.videos.video_failures import _quick_retries as _quick_retries
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
from videos import intervening, storage
from videos.exceptions import AlreadyTranscoding, VideoDeleted
from videos.models import Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db


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
    run_due_jobs(ahead=timedelta(minutes=5))
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
    with pytest.raises(AlreadyTranscoding, check=lambda error: error.number == 1):
        intervening.retranscode(video)
    run_due_jobs()
    intervening.retranscode(video)
    with pytest.raises(AlreadyTranscoding, check=lambda error: error.number == 2):
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


def test_a_job_of_a_deleted_video_is_not_retried(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs(limit=1)
    intervening.delete(video)
    cancelled = Job.objects.filter(type="videos.encode", status=Status.CANCELLED)
    with pytest.raises(VideoDeleted):
        lifecycle.retry(list(cancelled.values_list("pk", flat=True)))
    assert not only_transcode(video).is_active
    assert not Job.objects.active().exclude(type="videos.remove_files").exists()


def test_a_purged_video_leaves_nothing(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    intervening.purge(video)
    assert not Video.objects.exists()
    run_due_jobs()
    assert files_in(videos_root) == {}
