"""What the tests of the API of videos share: requests, their answers, and videos without a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from tests.support.videos.video_site import channel, clip
from videos import pipeline
from videos.models import Transcode, Video, VideoStatus

VIDEOS = "/api/videos"
NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
ROW = dict.fromkeys(VideoStatus.values, 0)


@pytest.fixture(autouse=True)
def _small_disk(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}


def bare(slug: str, **values: Any) -> Video:
    """A video that waits, without a file."""
    values = {"channel": channel(), "title": slug, "handle": slug, "source_bytes": 1, **values}
    looks = {"duration": 2, "width": 640, "height": 480, "fps": 25, "video_codec": "h264"}
    made: Video = Video.objects.create(
        slug=slug, source_name="a.mp4", source_sha256="0" * 64, **looks, **values
    )
    pipeline.start(Transcode.objects.create(video=made, number=1))
    return made


def send(client: Client, method: str, address: str, body: Any = None) -> Any:
    text = body if isinstance(body, str | bytes) or body is None else json.dumps(body)
    if text is None:
        return client.generic(method, address)
    return client.generic(method, address, text, content_type="application/json")


def upload(client: Client, path: Path | None = None, **form: Any) -> Any:
    path = path or clip(50)
    file = form.pop("file", None) or SimpleUploadedFile(path.name, path.read_bytes())
    form = {"channel": channel().slug, "file": file, **form}
    return client.post(VIDEOS, {name: value for name, value in form.items() if value != ""})


def refused(answer: Any, status: int, code: str, *words: str) -> bool:
    """Whether it was refused in the form that all refusals have."""
    assert answer.status_code == status, (answer.status_code, answer.content)
    problem = answer.json()
    assert set(problem) == {"error", "detail"}
    assert problem["error"] == code, problem
    assert all(word in problem["detail"] for word in words), problem
    return True
