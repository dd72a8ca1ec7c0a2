"""Records and files that disagree: what reconcile finds, repairs, and leaves alone."""

import os
import shutil
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from jobs import lifecycle
from jobs.models import Job, Status, Worker
from jobs.reconcile import reconcile
from jobs.testing import run_due_jobs
from tests.support.queue.actors import new_worker, stored
from tests.support.videos.video_site import accept, check_published, clip, current, files_in, only_transcode
from videos import intervening, storage
from videos.models import QualityProgress, TranscodeStatus, Video, VideoStatus
from videos.verbs import RETRANSCODE, situation_of

pytestmark = pytest.mark.django_db


def test_all_is_well_with_a_published_video(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    intervening.retranscode(video)
    run_due_jobs()
    assert reconcile() == []


def test_a_chunk_that_was_written_but_not_reported_is_completed(videos_root: Path) -> None:
    accept(clip(100))
    run_due_jobs(limit=2)
    job = Job.objects.get(type="videos.encode", status=Status.COMPLETED)
    other = Job.objects.get(type="videos.encode", status=Status.PENDING)
    worker = new_worker()
    Job.objects.filter(pk=job.pk).update(status=Status.PENDING, completed_at=None, attempt_number=0)
    Worker.objects.filter(pk=worker.pk).update(stopped_at="2020-01-01T00:00:00Z")
    chunks = [finding.job_id for finding in reconcile(dry_run=True) if finding.type == job.type]
    assert (chunks, stored(job).status) == ([job.pk], Status.PENDING)
    assert [finding.job_id for finding in reconcile() if finding.type == job.type] == [job.pk]
    assert (stored(job).status, stored(other).status) == (Status.COMPLETED, Status.PENDING)
    counted = QualityProgress.objects.exclude(status="skipped").values_list("segments_completed", flat=True)
    assert {*counted} == {2}, "counted once"


@pytest.mark.parametrize("damage", ["removed", "changed", "manifest"])
def test_a_chunk_whose_files_are_gone_is_encoded_again(videos_root: Path, damage: str) -> None:
    video = accept(clip(100))
    run_due_jobs(limit=2)
    transcode = only_transcode(video)
    job = Job.objects.get(type="videos.encode", status=Status.COMPLETED)
    folder = storage.generation(transcode)
    segment = next((folder / "360p").glob("seg_*.m4s"))
    if damage == "removed":
        segment.unlink()
    elif damage == "changed":
        segment.write_bytes(bytes(segment.stat().st_size))
    else:
        shutil.rmtree(folder / "manifests")
    assert [finding.job_id for finding in reconcile()] == [job.pk]
    assert transcode.qualities.get(quality="360p").segments_completed == 0
    run_due_jobs()
    check_published(video)


def told(caplog: pytest.LogCaptureFixture) -> list[Any]:
    """What the repair of videos has logged."""
    return [record for record in caplog.records if record.name == "videos.reconcile"]


def test_a_ready_video_whose_files_are_missing_is_encoded_again(
    videos_root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    video = accept(clip(50))
    run_due_jobs()
    (storage.generation(current(video)) / "360p" / "seg_00002.m4s").unlink()
    assert len(reconcile(dry_run=True)) == 1
    video.refresh_from_db()
    assert video.status == VideoStatus.READY
    (finding,) = reconcile()
    assert (finding.job_id, finding.becomes) == (video.pk, VideoStatus.PENDING)
    (said,) = told(caplog)
    assert (said.levelname, said.args[0], "360p" in said.getMessage()) == ("ERROR", video.pk, True)
    video.refresh_from_db()
    assert video.status == VideoStatus.PENDING
    assert reconcile() == [], "once is enough"
    run_due_jobs()
    assert current(video).number == 2
    check_published(video)


def test_where_the_source_is_missing_too_nothing_is_touched(
    videos_root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is not mounted looks like this; a video must not be lost by it."""
    video = accept(clip(50))
    run_due_jobs()
    away = storage.video_folder(video.pk).rename(videos_root / "away")
    assert reconcile() == []
    (said,) = told(caplog)
    assert (said.levelname, said.args[0]) == ("ERROR", video.pk)
    away.rename(storage.video_folder(video.pk))
    assert reconcile() == []
    check_published(video)


def test_a_published_video_whose_row_says_otherwise_is_ready(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    Video.objects.update(status=VideoStatus.FAILED, error_message="somebody's mistake")
    (finding,) = reconcile()
    assert finding.becomes == VideoStatus.READY
    video.refresh_from_db()
    assert (video.status, video.error_message) == (VideoStatus.READY, "")


def test_jobs_of_a_removed_generation_are_left_alone(videos_root: Path, settings: object) -> None:
    video = accept(clip(50))
    run_due_jobs()
    old = current(video)
    intervening.retranscode(video)
    run_due_jobs()
    shutil.rmtree(storage.generation(old))
    type(old).objects.filter(pk=old.pk).update(files_removed_at="2020-01-01T00:00:00Z")
    assert reconcile() == []
    assert old.status == TranscodeStatus.PUBLISHED  # as it was when it was read
    old.refresh_from_db()
    assert old.status == TranscodeStatus.RETIRED


def test_a_live_lease_is_never_touched(videos_root: Path) -> None:
    accept(clip(50))
    run_due_jobs(limit=1)
    worker = new_worker()
    lifecycle.claim(worker, 1)
    assert reconcile() == []


def test_folders_that_belong_to_nobody_are_listed_and_removed_on_request(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    kept = files_in(storage.video_folder(video.pk))
    nobody = videos_root / "01HZZZZZZZZZZZZZZZZZZZZZZZ"
    young = videos_root / "01HYYYYYYYYYYYYYYYYYYYYYYY"
    upload = videos_root / "incoming" / "01HXXXXXXXXXXXXXXXXXXXXXXX"
    generation = storage.video_folder(video.pk) / "g7"
    for folder in (nobody, young, upload, generation):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
        if folder != young:
            long_ago = time.time() - 7200
            for path in (folder / "file", folder):
                os.utime(path, (long_ago, long_ago))
    listed = StringIO()
    call_command("videos", "orphans", stdout=listed)
    assert {line.split(":")[0] for line in listed.getvalue().splitlines()[:-1]} == {
        str(path) for path in (nobody, upload, generation)
    }
    assert nobody.exists()
    call_command("videos", "orphans", "--remove", stdout=StringIO())
    assert [path.exists() for path in (nobody, young, upload, generation)] == [False, True, False, False]
    assert files_in(storage.video_folder(video.pk)) == kept


def test_the_command_acts_on_videos(videos_root: Path) -> None:
    video = accept(clip(50), slug="film")
    run_due_jobs()
    out, err = StringIO(), StringIO()
    call_command("videos", "retranscode", "film", stdout=out)
    assert out.getvalue() == f"film: {RETRANSCODE.done}\n"
    with pytest.raises(SystemExit):
        call_command("videos", "retranscode", "film", stdout=out, stderr=err)
    assert RETRANSCODE.obstacle(situation_of(video)) in err.getvalue()
    assert video.transcodes.count() == 2
    for verb in ("cancel", "delete", "restore"):
        call_command("videos", verb, "film", stdout=out)
        with pytest.raises(SystemExit):
            call_command("videos", verb, "film", stdout=StringIO(), stderr=err)
    video.refresh_from_db()
    assert video.status == VideoStatus.READY
