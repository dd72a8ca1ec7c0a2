"""What the tests of failing transcodes share: ways to fail, and what was encoded all the same."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import PermanentFailure, registry
from jobs.models import Job, Status
from jobs.testing import Run, run_due_jobs
from tests.support.videos.video_site import accept, current, only_transcode, two_qualities
from videos.media import encode
from videos.media.exceptions import FfmpegFailed
from videos.models import Video


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


def run_out_of_attempts() -> None:
    for _ in range(3):
        run_due_jobs(raise_errors=False)
        Job.objects.filter(status=Status.WAITING, blocked=False).update(run_at="2020-01-01T00:00:00Z")


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


def states(video: Video) -> dict[str, tuple[str, int]]:
    rows = only_transcode(video).qualities.filter(quality__in=["480p", "360p"])
    return {row.quality: (row.status, row.segments_completed) for row in rows}


def published(video: Video) -> list[str]:
    return [r.name for r in current(video).renditions.filter(kind="video")]


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
