"""What the tests of videos in the admin share: videos in states that matter there, and the buttons of their page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from jobs.testing import run_due_jobs
from tests.support.videos.video_site import accept, channel, clip
from videos import intervening
from videos.models import Video, VideoStatus
from videos.verbs import situation_of

EVIL = "<script>alert(1)</script>"
LIST = "/admin/videos/video/"

Act = Callable[..., str]


@pytest.fixture
def video(videos_root: Path) -> Video:
    made = accept(clip(50), slug="film", title=EVIL, owner="ann")
    run_due_jobs()
    made.refresh_from_db()
    return made


@pytest.fixture
def waiting(videos_root: Path) -> Video:
    """One whose jobs have not run."""
    return accept(clip(50), slug="waiting", title="Waiting")


@pytest.fixture
def failed(videos_root: Path) -> Video:
    made = accept(clip(50), slug="failed", title="Failed")
    intervening.cancel(made)
    made.refresh_from_db()
    assert made.status == VideoStatus.FAILED
    return made


@pytest.fixture
def act(admin_client: Client) -> Act:
    """`act(video, "retry")` presses a button of the page as it is now; what the next page says."""

    def act(video: Video, verb: str, *, client: Client = admin_client, **more: Any) -> str:
        seen = situation_of(Video.objects.get(pk=video.pk)).seen
        return client.post(
            f"{LIST}{video.pk}/act/", {"verb": verb, "seen": seen, **more}, follow=True
        ).content.decode()

    return act


def send(client: Client, path: Path, **query: Any) -> Any:
    query = {"name": path.name, "channel": channel().pk, **query}
    return client.post(
        f"{LIST}upload/", path.read_bytes(), content_type="application/octet-stream", query_params=query
    )


def told(page: str) -> list[str]:
    """The messages at the top of a page, by code and level: ["done_retry success"]."""
    messages = re.search(r'<ul class="messagelist">.*?</ul>', page, re.DOTALL)
    return re.findall(r'<li class="([^"]*)"', messages[0]) if messages else []


def page_of(client: Client, video: Video) -> str:
    return client.get(f"{LIST}{video.pk}/change/").content.decode()
