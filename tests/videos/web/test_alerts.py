"""Alerts about jobs of the pipeline name the video, so that failures of one video are one alert."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import enqueue
from jobs.alerts.subjects import subject_of
from jobs.models import Job
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.queue.alerting import told_to
from tests.support.servers.webhooks import Webhook
from tests.support.videos.video_site import accept, clip
from tests.support.videos.video_workers import has_ended, worker_environment

pytestmark = pytest.mark.django_db(transaction=True)


def test_jobs_of_one_video_are_about_the_same_thing(videos_root: Path) -> None:
    video = accept(clip(50), slug="film", title="Film")
    probe = Job.objects.get(type="videos.probe")
    other = Job(type="videos.encode", payload={"transcode_id": probe.payload["transcode_id"], "chunk": 3})
    removal = Job(type="videos.remove_files", payload={"video_id": video.pk})
    assert subject_of(probe) == subject_of(other) == subject_of(removal) == f"video {video.pk} “Film”"


@pytest.mark.parametrize(
    "payload", [{"transcode_id": 4711}, {"transcode_id": "x"}, {"transcode_id": None}, {"video_id": "x"}, {}]
)
def test_a_job_whose_video_is_gone_is_about_nothing(payload: object) -> None:
    assert subject_of(Job(type="videos.encode", payload=payload)) is None


def test_jobs_of_others_are_none_of_its_business() -> None:
    assert subject_of(enqueue("tests.noop")) is None


def test_an_alert_about_a_failed_job_says_which_video_it_was(
    videos_root: Path, start_manage: StartManage, webhook: Webhook
) -> None:
    video = accept(clip(25), title="The <Great> Escape")
    for path in videos_root.rglob("*"):
        if path.is_file() and path.stat().st_size > 1000:
            path.write_bytes(b"")  # the source is gone
    told = {f"JOBS_{name}": str(value) for name, value in told_to(webhook).items()}
    chosen = {"JOBS_ALERT_KINDS": "job_max_retries_exceeded"}
    start_manage("runworker", env={**worker_environment(), **told, **chosen})
    wait_until(lambda: has_ended(video))
    alert = wait_until(lambda: list(webhook.requests))[0].json
    assert alert["kind"] == "job_max_retries_exceeded"
    assert alert["facts"]["subject"] == f"video {video.pk} “{video.title}”"
    assert alert["facts"]["subject"] in alert["text"]
