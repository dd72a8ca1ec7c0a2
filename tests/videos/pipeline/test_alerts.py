"""Alerts about jobs of the pipeline name the video."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import enqueue
from jobs.alerts.subjects import subject_of
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.queue.alerting import told_to
from tests.support.servers.webhooks import Webhook
from tests.support.videos.video_site import accept, clip, only_transcode
from tests.support.videos.video_workers import has_ended, worker_environment

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_alert_about_a_failed_job_says_which_video_it_was(
    videos_root: Path, start_manage: StartManage, webhook: Webhook
) -> None:
    video = accept(clip(25), title="The <Great> Escape", slug="great-escape")
    for path in videos_root.rglob("*"):
        if path.is_file() and path.stat().st_size > 1000:
            path.write_bytes(b"")  # the source is gone
    told = {f"JOBS_{name}": str(value) for name, value in told_to(webhook).items()}
    chosen = {"JOBS_ALERT_KINDS": "job_max_retries_exceeded"}
    start_manage("runworker", env={**worker_environment(), **told, **chosen})
    wait_until(lambda: has_ended(video))
    alert = wait_until(lambda: list(webhook.requests))[0].json
    assert alert["kind"] == "job_max_retries_exceeded"
    for name in (video.title, video.slug):
        assert name in alert["facts"]["subject"]
        assert name in alert["text"]


def test_every_job_of_a_video_is_about_it(videos_root: Path) -> None:
    video = accept(clip(25))
    jobs = [
        enqueue("videos.watch_encoder", transcode_id=only_transcode(video).pk, turn=1),
        enqueue("videos.remove_files", video_id=video.pk),
    ]
    assert {subject_of(job) for job in jobs} == {f"video “{video.title}” ({video.slug})"}
    assert subject_of(enqueue("videos.remove_files", video_id="gone")) is None
