"""A video's status and progress follow its jobs, in the same transactions."""

from functools import partial
from pathlib import Path

import pytest

from jobs import lifecycle
from jobs.lifecycle import ClaimedJob, FailureReport, ProgressReport
from jobs.models import Job, Status
from jobs.testing import run_due_jobs
from tests.support.queue.actors import new_worker, race
from tests.support.videos.codes import error_types
from tests.support.videos.video_site import accept, clip, current, only_transcode, two_qualities
from videos import intervening, progress
from videos.exceptions import GenerationReplaced
from videos.models import QualityStatus, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db


def status_of(video: Video) -> str:
    video.refresh_from_db()
    return video.status


def claim(count: int = 1) -> list[ClaimedJob]:
    return [job for _ in range(count) for job in lifecycle.claim(new_worker(), 1)]


def planned(path: Path) -> Video:
    """A video whose probe is done: its chunks are pending."""
    video = accept(path)
    run_due_jobs(limit=1)
    return video


def test_a_video_is_processing_from_the_first_claim_on(videos_root: Path) -> None:
    video = accept(clip(50))
    assert status_of(video) == VideoStatus.PENDING
    (job,) = claim()
    assert status_of(video) == VideoStatus.PROCESSING
    assert only_transcode(video).status == TranscodeStatus.PROCESSING
    lifecycle.release([job.lease])
    assert status_of(video) == VideoStatus.PENDING


def test_it_is_pending_again_only_when_nothing_of_it_runs(videos_root: Path) -> None:
    video = planned(clip(100))
    first, second = claim(2)
    lifecycle.release([first.lease])
    assert status_of(video) == VideoStatus.PROCESSING
    lifecycle.fail(second.lease, FailureReport("RuntimeError", "try again"))
    assert status_of(video) == VideoStatus.PENDING
    qualities = only_transcode(video).qualities.exclude(status=QualityStatus.SKIPPED)
    assert set(qualities.values_list("status", flat=True)) == {QualityStatus.PENDING}


def test_a_worker_that_is_gone_returns_its_video(videos_root: Path) -> None:
    video = planned(clip(50))
    worker = new_worker()
    lifecycle.claim(worker, 1)
    lifecycle.recover_lost(worker.pk, "it died")
    assert status_of(video) == VideoStatus.PENDING


@pytest.mark.django_db(transaction=True)
def test_of_two_that_give_up_at_the_same_moment_the_second_sees_the_first(videos_root: Path) -> None:
    video = planned(clip(100))
    for _ in range(5):
        jobs = claim(2)
        assert status_of(video) == VideoStatus.PROCESSING
        race([partial(lifecycle.release, [job.lease]) for job in jobs])
        assert status_of(video) == VideoStatus.PENDING


def test_a_failed_video_says_why_and_others_go_on(videos_root: Path) -> None:
    video = planned(clip(100))
    first, second = claim(2)
    lifecycle.fail(first.lease, FailureReport("FfmpegFailed", "it broke", permanent=True))
    video.refresh_from_db()
    assert (video.status, video.error_message) == (VideoStatus.FAILED, "it broke")
    lifecycle.complete(second.lease)
    assert status_of(video) == VideoStatus.FAILED
    assert set(Job.objects.filter(status=Status.CANCELLED).values_list("type", flat=True)) == {
        "videos.thumbnail",
        "videos.master_playlist",
        "videos.finalize",
    }


def test_a_retranscode_leaves_a_ready_video_ready(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    transcode = intervening.retranscode(video)
    (job,) = claim()
    assert status_of(video) == VideoStatus.READY
    lifecycle.fail(job.lease, FailureReport("X", "it broke", permanent=True))
    video.refresh_from_db()
    assert (video.status, video.error_message) == (VideoStatus.READY, "")
    transcode.refresh_from_db()
    assert (transcode.status, transcode.error) == (TranscodeStatus.FAILED, "it broke")
    intervening.cancel(video)
    assert status_of(video) == VideoStatus.READY


def test_a_replaced_generation_cannot_be_revived_by_its_jobs(videos_root: Path) -> None:
    video = accept(clip(50))
    (job,) = claim()
    lifecycle.fail(job.lease, FailureReport("X", "it broke", permanent=True))
    newer = intervening.retranscode(video)
    with pytest.raises(GenerationReplaced):
        lifecycle.retry(job.lease.job_id)
    assert Job.objects.get(pk=job.lease.job_id).status == Status.CANCELLED
    run_due_jobs()
    assert current(video) == newer


def test_progress_is_by_pixels_and_never_goes_backwards(videos_root: Path) -> None:
    video = planned(two_qualities(100))
    worker = new_worker()
    jobs = lifecycle.claim(worker, 2)
    seen = [progress.read(only_transcode(video)).percent]

    def look() -> float:
        seen.append(progress.read(only_transcode(video)).percent)
        assert seen == sorted(seen), "it went backwards"
        return seen[-1]

    lifecycle.report_progress([ProgressReport(job.lease, 50) for job in jobs])
    assert 40 < look() < 50
    shares = {share.quality: share.percent for share in progress.read(only_transcode(video)).qualities}
    assert shares["480p"] == shares["360p"] == 50
    lifecycle.recover_lost(worker.pk, "it died")
    assert look() > 40
    again = claim(2)
    look()
    lifecycle.report_progress([ProgressReport(job.lease, 10) for job in again])
    look()
    lifecycle.release([job.lease for job in again])
    while run_due_jobs(limit=1):
        look()
    assert look() == 100


def test_progress_ends_at_a_hundred_and_has_an_end_in_sight(videos_root: Path) -> None:
    video = planned(two_qualities(100))
    run_due_jobs(limit=1)
    now = progress.read(only_transcode(video))
    assert 30 < now.percent < 60
    assert now.eta is not None
    run_due_jobs()
    assert progress.read(current(video)).percent == 100
    assert progress.read(current(video)).eta is None


def test_a_plan_of_another_version_keeps_no_worker_from_its_other_jobs(videos_root: Path) -> None:
    video = planned(clip(50))
    transcode = only_transcode(video)
    assert transcode.plan is not None
    transcode.plan["version"] = 999
    transcode.save()
    other = accept(clip(50), slug="other")
    run_due_jobs(raise_errors=False)
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    assert (error_types(), bool(video.error_message)) == ({"PlanUnusable"}, True)
    current(other)
    assert intervening.retranscode(video).number == 2
    run_due_jobs()
    current(video)
