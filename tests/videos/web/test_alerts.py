"""Alerts about jobs of the pipeline name the video, so that failures of one video are one alert."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import enqueue
from jobs.alerts.subjects import subject_of
from jobs.models import Job
from tests.support.videos.video_site import accept, clip

pytestmark = pytest.mark.django_db


def test_jobs_of_one_video_are_about_the_same_thing(videos_root: Path) -> None:
    video = accept(clip(50), slug="film", title="Film")
    probe = Job.objects.get(type="videos.probe")
    other = Job(type="videos.encode", payload={"transcode_id": probe.payload["transcode_id"], "chunk": 3})
    assert subject_of(probe) == subject_of(other) == f"video {video.pk} “Film”"


@pytest.mark.parametrize(
    "payload", [{"transcode_id": 4711}, {"transcode_id": "x"}, {"transcode_id": None}, {}]
)
def test_a_job_whose_video_is_gone_is_about_nothing(payload: object) -> None:
    assert subject_of(Job(type="videos.encode", payload=payload)) is None


def test_jobs_of_others_are_none_of_its_business() -> None:
    assert subject_of(enqueue("tests.noop")) is None
