"""One build of ffmpeg per generation, and none that is gone is waited for."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import LeaseLost, lifecycle
from jobs.models import Job, Status, Worker
from jobs.testing import run_due_jobs
from tests.support.queue.actors import new_worker, race_outcomes, stored
from tests.support.videos.codes import error_types
from tests.support.videos.video_encoders import _types_as_they_were as _types_as_they_were
from tests.support.videos.video_encoders import due, planned, register, stored_worker, without_gpu
from tests.support.videos.video_site import accept, check_published, clip, current, two_qualities
from videos import generations, intervening, toolchains
from videos.models import Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db

OTHER = "6.1-another"


def pin_to(transcode: Transcode, build: str) -> None:
    """As if another build of ffmpeg had planned it."""
    assert transcode.plan is not None
    transcode.plan["ffmpeg"] = build
    transcode.save()


@pytest.mark.parametrize("stage", ["videos.encode", "videos.audio"])
def test_a_job_for_another_build_goes_to_the_worker_that_has_it_and_loses_no_attempt(
    videos_root: Path, settings: Settings, stage: str
) -> None:
    transcode = planned(clip(50))
    build = toolchains.here().build
    pin_to(transcode, OTHER)
    new_worker(capabilities=[f"ffmpeg:{OTHER}"])
    job = Job.objects.get(workflow_id=transcode.workflow_id, type=stage)
    for turn in range(1, 6):
        runs = [run for run in run_due_jobs() if run.id == job.pk]
        assert [run.status for run in runs] == [Status.WAITING]
        left = stored(job).max_attempts - stored(job).attempt_number
        assert left == settings.JOBS.get("MAX_ATTEMPTS", 3), f"turn {turn} was counted"
        assert error_types(job=job.pk) == {"NotThisWorker"}
        assert OTHER in stored(job).last_error
        due()
    transcode.refresh_from_db()
    assert transcode.is_active
    pin_to(transcode, build)  # that worker takes it
    due()
    run_due_jobs()
    check_published(transcode.video)


@pytest.mark.parametrize("state", [None, {"status": "offline"}, {"last_heartbeat": "2020-01-01T00:00:00Z"}])
def test_when_no_worker_has_the_build_any_more_the_generation_is_started_over(
    videos_root: Path, state: dict[str, Any] | None
) -> None:
    transcode = planned(two_qualities())
    run_due_jobs(limit=1)
    pin_to(transcode, OTHER)
    if state:
        new_worker(capabilities=[f"ffmpeg:{OTHER}"], **state)
    run_due_jobs(limit=1)
    transcode.refresh_from_db()
    assert (transcode.status, transcode.video.status) == (TranscodeStatus.CANCELLED, VideoStatus.PENDING)
    assert OTHER in transcode.error
    run_due_jobs()
    video = transcode.video
    assert current(video).number == 2
    check_published(video)
    assert not Job.objects.filter(status=Status.FAILED).exists()


def test_a_retranscode_that_is_started_over_leaves_the_published_version_alone(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    before = Video.objects.values().get()
    second = intervening.retranscode(video, qualities=["360p"])
    run_due_jobs(limit=1)
    second.refresh_from_db()
    pin_to(second, OTHER)
    run_due_jobs(limit=1)
    assert Video.objects.values().get() == before
    third = video.transcodes.get(number=3)
    assert (third.requested_qualities, third.is_active) == (["360p"], True)
    run_due_jobs()
    assert current(video) == third


def test_of_two_workers_that_find_out_one_starts_over(videos_root: Path) -> None:
    transcode = planned(two_qualities())
    pin_to(transcode, OTHER)
    run_due_jobs()
    assert list(transcode.video.transcodes.values_list("number", flat=True)) == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_of_two_that_start_over_at_the_same_moment_one_does(videos_root: Path) -> None:
    transcode = planned(two_qualities())
    leases = [claimed.lease for claimed in lifecycle.claim(new_worker(types=["videos.encode"]), 2)]
    outcomes = race_outcomes(
        [partial(generations.start_over, transcode, reason="gone", lease=lease) for lease in leases]
    )
    assert sum(isinstance(outcome, LeaseLost) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Transcode) for outcome in outcomes) == 1
    assert generations.start_over(transcode, reason="gone") is None, "it has ended"
    assert list(transcode.video.transcodes.values_list("number", flat=True)) == [1, 2]
    run_due_jobs()
    check_published(transcode.video)


def test_a_worker_whose_ffmpeg_was_replaced_says_so(videos_root: Path, settings: Settings) -> None:
    without_gpu(settings)
    worker = register()
    Worker.objects.filter(pk=worker.pk).update(capabilities=["big", f"ffmpeg:{OTHER}"])
    toolchains.correct_record(worker.pk)
    assert stored_worker(worker).capabilities == worker.capabilities
