"""A stage is declared in one place, beside its handler, and takes its place in the workflow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import JobContext, PermanentFailure, registry
from jobs.models import Job, Status
from jobs.testing import run_due_jobs
from tests.support.videos.video_site import accept, check_published, clip, current, only_transcode
from videos import checks, pipeline, progress
from videos.models import Step, TranscodeStatus, VideoStatus
from videos.pipeline import stage

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _stages_as_they_were() -> Iterator[None]:
    types, stages = dict(registry._types), dict(pipeline._stages)
    yield
    registry._types.clear()
    registry._types.update(types)
    pipeline._stages.clear()
    pipeline._stages.update(stages)
    pipeline.in_order.cache_clear()


def test_a_new_stage_runs_where_it_says(videos_root: Path) -> None:
    ran: list[tuple[int, bool]] = []

    @stage(
        "here.waveform",
        step=Step.TRANSCODE,
        units=pipeline.per_track,
        work=pipeline.sound,
        after=["videos.audio"],
        before=["videos.master_playlist"],
    )
    def waveform(job: JobContext, transcode_id: int, track: int) -> None:
        ran.append((track, Job.objects.get(type="videos.master_playlist").status == Status.WAITING))
        assert Job.objects.get(type="videos.audio").status == Status.COMPLETED

    video = accept(clip(50))
    run_due_jobs()
    assert ran == [(1, True)]
    check_published(video)
    assert progress.read(current(video)).percent == 100


@pytest.mark.parametrize("critical", [True, False])
def test_the_transcode_fails_with_it_only_if_it_is_critical(videos_root: Path, critical: bool) -> None:
    @stage(
        "here.watermark",
        step=Step.TRANSCODE,
        units=pipeline.once,
        before=["videos.master_playlist"],
        critical=critical,
    )
    def watermark(job: JobContext, transcode_id: int) -> None:
        raise PermanentFailure("no watermark")

    video = accept(clip(50))
    run_due_jobs(raise_errors=False)
    video.refresh_from_db()
    if critical:
        assert (video.status, video.error_message) == (VideoStatus.FAILED, "no watermark")
    else:
        assert video.status == VideoStatus.READY
        assert only_transcode(video).status == TranscodeStatus.PUBLISHED


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ({"after": ["videos.nonsense"]}, "videos.nonsense"),
        ({"before": ["videos.nonsense"]}, "videos.nonsense"),
        ({"after": ["videos.finalize"], "before": ["videos.audio"]}, "wait for each other"),
    ],
)
def test_a_stage_that_cannot_be_placed_is_refused_at_start_up(
    where: dict[str, list[str]], complaint: str
) -> None:
    @stage("here.lost", step=Step.TRANSCODE, units=pipeline.once, **where)  # type: ignore[arg-type]
    def lost(job: JobContext, transcode_id: int) -> None: ...

    (error,) = checks.check_stages()
    assert error.id == "videos.E002"
    assert complaint in error.msg
    del pipeline._stages["here.lost"]
    pipeline.in_order.cache_clear()
    assert checks.check_stages() == []
