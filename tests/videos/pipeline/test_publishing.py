"""Publishing is one instant: before it the old generation whole, after it the new one whole, whatever goes wrong."""

from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs import LeaseLost, lifecycle
from jobs.lifecycle import ClaimedJob
from jobs.models import Job, Status
from jobs.testing import run_due_jobs
from jobs.worker.context import JobContext
from tests.support.queue.actors import new_worker
from tests.support.videos.video_site import accept, check_published, clip, current, files_in, only_transcode
from videos import intervening, job_types, storage
from videos.media.exceptions import NotConformant
from videos.models import Rendition, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db


def up_to_finalize(video: Video) -> ClaimedJob:
    """Everything of the newest transcode is done but the last job, which is claimed."""
    while not Job.objects.filter(type="videos.finalize", status=Status.PENDING).exists():
        assert run_due_jobs(limit=1)
    (claimed,) = lifecycle.claim(new_worker(types=["videos.finalize"]), 1)
    return claimed


def finalize(claimed: ClaimedJob) -> None:
    context = JobContext(claimed, report=lambda report: None)
    job_types.finalize(context, **claimed.payload)


def test_a_worker_that_lost_its_lease_publishes_nothing(videos_root: Path) -> None:
    video = accept(clip(50))
    claimed = up_to_finalize(video)
    lifecycle.recover_lost(claimed.lease.worker_id, "it seemed dead")
    with pytest.raises(LeaseLost):
        finalize(claimed)
    video.refresh_from_db()
    assert (video.status, video.current) == (VideoStatus.PENDING, None)
    assert not Rendition.objects.exists()
    run_due_jobs()
    check_published(video)


def test_publishing_completes_its_job_in_the_same_instant(videos_root: Path) -> None:
    video = accept(clip(50))
    claimed = up_to_finalize(video)
    finalize(claimed)
    assert Job.objects.get(pk=claimed.lease.job_id).status == Status.COMPLETED
    lifecycle.complete(claimed.lease)  # as the worker does afterwards: a success too
    check_published(video)


@pytest.mark.parametrize("damage", ["removed", "changed", "playlist"])
def test_what_is_not_as_it_was_written_is_not_published(videos_root: Path, damage: str) -> None:
    video = accept(clip(50))
    claimed = up_to_finalize(video)
    folder = storage.generation(only_transcode(video)) / "360p"
    if damage == "removed":
        (folder / "seg_00002.m4s").unlink()
    elif damage == "changed":
        data = bytearray((folder / "seg_00001.m4s").read_bytes())
        data[-1] ^= 1
        (folder / "seg_00001.m4s").write_bytes(data)
    else:
        (folder / "playlist.m3u8").write_text("#EXTM3U\n")
    with pytest.raises(NotConformant):
        finalize(claimed)
    video.refresh_from_db()
    assert video.current is None


@pytest.mark.parametrize("after", range(1, 6))
def test_a_retranscode_cancelled_at_any_point_changes_nothing(videos_root: Path, after: int) -> None:
    video = accept(clip(50))
    run_due_jobs()
    generation, before = storage.generation(current(video)), Video.objects.values().get()
    files = files_in(generation)
    transcode = intervening.retranscode(video)
    run_due_jobs(limit=after)
    intervening.cancel(video)
    transcode.refresh_from_db()
    assert transcode.status == TranscodeStatus.CANCELLED
    assert Video.objects.values().get() == before
    assert files_in(generation) == files
    assert run_due_jobs() == []


def test_a_remover_that_crashes_halfway_is_finished_by_the_next(
    videos_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "GENERATION_GRACE": "1ms"}
    settings.JOBS = {**settings.JOBS, "BACKOFF_BASE": "1ms", "BACKOFF_CAP": "2ms"}
    video = accept(clip(50))
    run_due_jobs()
    old = current(video)
    intervening.retranscode(video)
    real = storage.remove

    def crashes(folder: Path) -> None:
        if folder == storage.generation(old):
            (folder / "master.m3u8").unlink(missing_ok=True)
            raise RuntimeError("the power failed")
        real(folder)

    monkeypatch.setattr(storage, "remove", crashes)
    run_due_jobs(raise_errors=False)
    run_due_jobs(raise_errors=False, ahead=timedelta(seconds=1), limit=1)
    old.refresh_from_db()
    assert old.files_removed_at is not None, "nobody is sent to what is half removed"
    monkeypatch.setattr(storage, "remove", real)
    removers = Job.objects.filter(type="videos.remove_files").exclude(status=Status.COMPLETED)
    lifecycle.retry(list(removers.values_list("pk", flat=True)))
    run_due_jobs(ahead=timedelta(minutes=1))
    assert not storage.generation(old).exists()
    check_published(video)


def test_nothing_outside_of_the_folder_can_be_removed(videos_root: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    for folder in (precious, videos_root / ".." / "precious", videos_root):
        with pytest.raises(storage.NoSuchName):
            storage.remove(folder)
    assert precious.exists()
