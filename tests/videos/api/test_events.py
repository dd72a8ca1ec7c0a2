"""The stream of a video for programs: what is made of it, quality by quality, until it is ready."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from jobs import staff_tokens
from jobs.testing import run_due_jobs
from tests.support.pages.live_pages import _hints_start_afresh as _hints_start_afresh
from tests.support.pages.live_pages import connect as connect
from tests.support.pages.live_pages import somebody
from tests.support.processes import wait_until
from tests.support.servers.sse import Connect, EventStream
from tests.support.videos.video_site import accept, clip
from videos import intervening

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_video_is_followed_until_it_is_ready(
    connect: Connect, live_server: LiveServer, videos_root: Path
) -> None:
    video = accept(clip(50))
    token = staff_tokens.issue(somebody("clerk", "view_video"), timedelta(hours=1))
    url, headers = f"{live_server.url}/api/events/?video={video.pk}", {"Authorization": f"Bearer {token}"}
    stream = EventStream(url, headers=headers)

    def seen(name: str) -> object:
        return stream.state.get(f"video.{video.pk}.{name}")

    wait_until(lambda: seen("status") == "pending")
    run_due_jobs(limit=2)
    wait_until(lambda: 0 < float(str(seen("percent"))) < 100)
    run_due_jobs()
    wait_until(lambda: (seen("status"), seen("percent"), seen("generation")) == ("ready", 100, 1))
    assert (seen("quality.360p.status"), seen("quality.360p.percent")) == ("completed", 100)
    intervening.delete(video)
    wait_until(lambda: seen("deleted") is True)
    stream.close()


def test_a_video_that_was_purged_is_said_to_be(connect: Connect) -> None:
    nobody = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    answer = connect(f"?video={nobody}", Accept="application/json")
    assert answer.body() == {f"video.{nobody}.status": "purged"}
