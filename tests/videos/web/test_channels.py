"""Channels of Redis for subscribers outside: what they hear of a video from upload to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import lifecycle
from jobs.lifecycle import ProgressReport
from jobs.live import channels
from jobs.testing import run_due_jobs
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one
from tests.support.servers.redis_channels import Subscriber
from tests.support.servers.redis_channels import _redis as _redis
from tests.support.servers.redis_server import RedisServer
from tests.support.videos.video_site import accept, clip
from videos import intervening

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def subscriber(redis_server: RedisServer, settings: Settings) -> Iterator[Subscriber]:
    subscriber = Subscriber(redis_server, "transcode_*")
    yield subscriber
    subscriber.close()


def test_a_video_is_heard_from_its_first_job_to_its_publication(
    subscriber: Subscriber, videos_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "PAUSE", 0)
    video = accept(clip(50))
    end, way = f"transcode_complete:{video.pk}", f"transcode_progress:{video.pk}"
    run_due_jobs()
    wait_until(lambda: end in [channel for channel, _ in subscriber.listen()])
    wait_until(lambda: subscriber.listen() and last(subscriber, way)["progress_percent"] == 100)
    assert {channel for channel, _ in subscriber.heard} == {end, way}
    said = last(subscriber, way)
    about = {"video_id": video.pk, "slug": video.slug, "status": "ready", "version": 1}
    assert said == {
        **about,
        "current_step": "finalize",
        "progress_percent": 100,
        "eta": None,
        "qualities": said["qualities"],
    }
    (made,) = [row for row in said["qualities"] if row["quality"] == "360p"]
    segments = made["segments_total"]
    assert made == {
        "quality": "360p",
        "status": "completed",
        "progress_percent": 100,
        "segments_completed": segments,
        "segments_total": segments,
    }
    assert last(subscriber, end) == {
        **about,
        "outcome": "published",
        "duration": pytest.approx(2, abs=0.1),
        "qualities": ["360p"],
        "error_message": "",
    }
    percents = [body["progress_percent"] for channel, body in subscriber.heard if channel == way]
    assert percents == sorted(percents)


def test_progress_that_a_worker_reports_is_heard(subscriber: Subscriber, videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs(limit=1)
    lease = claim_one().lease
    wait_until(lambda: last(subscriber, f"transcode_progress:{video.pk}")["status"] == "processing")
    before = last(subscriber, f"transcode_progress:{video.pk}")["progress_percent"]
    lifecycle.report_progress([ProgressReport(lease, 50)])
    wait_until(lambda: last(subscriber, f"transcode_progress:{video.pk}")["progress_percent"] > before)


def test_an_end_without_a_publication_is_heard_with_its_reason(
    subscriber: Subscriber, videos_root: Path
) -> None:
    video = accept(clip(50))
    intervening.cancel(video)
    end = f"transcode_complete:{video.pk}"
    wait_until(lambda: last(subscriber, end))
    body = last(subscriber, end)
    assert (body["outcome"], body["status"], body["qualities"]) == ("cancelled", "failed", [])
    assert body["error_message"]


def last(subscriber: Subscriber, wanted: str) -> dict[str, Any]:
    bodies = [body for channel, body in subscriber.listen() if channel == wanted]
    return bodies[-1] if bodies else {"status": "", "progress_percent": -1} if "progress" in wanted else {}
