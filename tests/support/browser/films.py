"""Videos for the browser tests: clips, and what is done to the site's database (over Backstage.call)."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.browser.backstage import Backstage
from tests.support.videos.media_clips import make_clip

if TYPE_CHECKING:
    from playwright.sync_api import Page

SECONDS = 10
CHUNK_SECONDS = 4
"""Two segments of two seconds: see site.QUICK."""

CAPTIONS = b"WEBVTT\n\n00:00.000 --> 00:05.000\nFirst words\n\n00:05.000 --> 00:10.000\nLast <b>words</b>\n"

_clips = tempfile.TemporaryDirectory(prefix="sprocket-films-")


@functools.cache
def clip(seconds: int = SECONDS) -> Path:
    """480p and 360p; several chunks."""
    return make_clip(Path(_clips.name) / f"clip-{seconds}.mp4", frames=25 * seconds, size=(640, 480))


@contextlib.contextmanager
def held_back(backstage: Backstage, job_type: str) -> Iterator[None]:
    """Jobs of this type wait meanwhile."""
    backstage.call(pause, job_type, True)
    try:
        yield
    finally:
        backstage.call(pause, job_type, False)


def never_end(page: Page) -> None:
    """The video of the page begins anew when it is over: a slow machine still finds it playing."""
    page.locator("video").evaluate("video => (video.loop = true)")


def wait_until_loaded(page: Page) -> None:
    """All of the video: a page that is left in the middle of it complains of what is no longer there."""
    page.wait_for_function(
        """() => {
            const video = document.querySelector("video");
            return video.buffered.length && video.buffered.end(video.buffered.length - 1) > video.duration - 0.5;
        }"""
    )


# -- backstage -------------------------------------------------------------------------------------------------------


def accept(path: Path, slug: str, **wanted: Any) -> str:
    """A video of this file; its id. The worker encodes it meanwhile."""
    from tests.support.videos.video_site import channel
    from videos import intake

    in_channel = channel(wanted.pop("channel", "films"))
    return str(intake.accept(path, channel=in_channel, slug=slug, **wanted).pk)


def publish(path: Path, slug: str, **wanted: Any) -> str:
    """The same, ready to watch."""
    from tests.support.processes import wait_until
    from videos.models import Video

    video_id = accept(path, slug, **wanted)

    def ready() -> bool:
        video = Video.objects.get(pk=video_id)
        assert video.status != "failed", video.error_message
        return bool(video.status == "ready")

    wait_until(ready, timeout=100)
    return video_id


def add_captions(video_id: str, language: str = "en", label: str = "English") -> None:
    from videos import subtitling
    from videos.models import Video

    subtitling.upload(Video.objects.get(pk=video_id), CAPTIONS, language=language, label=label)


def pause(job_type: str, paused: bool) -> None:
    from jobs.models import JobTypeState

    JobTypeState.objects.update_or_create(name=job_type, defaults={"paused": paused})


def break_source(video_id: str) -> None:
    """The video fails at its next attempt: what was uploaded is gone."""
    from videos import storage
    from videos.models import Video

    storage.source(Video.objects.get(pk=video_id)).write_bytes(b"no film")
