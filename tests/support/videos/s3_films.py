"""Videos in a bucket, as viewers, workers and the people who look after the bucket meet them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import m3u8  # type: ignore[import-untyped]
import pytest
from django.test import Client
from pytest_django import Settings

from project.settings import s3_storage
from tests.support.servers.s3_server import BUCKET, S3Server, fetch
from tests.support.servers.wire import Wire
from tests.support.videos import conformance
from tests.support.videos.video_site import current
from videos import assembling
from videos.models import Video

PREFIX = "site/videos"


class Bucket(S3Server):
    """With a wire in front that can be cut."""

    def __init__(self) -> None:
        super().__init__()
        self.wire = Wire(self.port)

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"S3_ENDPOINT_URL": f"http://127.0.0.1:{self.wire.port}"}

    def of(self, video: Video) -> dict[str, int]:
        """The files of a video with their sizes."""
        start = f"{PREFIX}/{video.pk}/"
        return {
            name.removeprefix(start): size for name, size in self.names().items() if name.startswith(start)
        }

    def remove(self, video: Video, name: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=f"{PREFIX}/{video.pk}/{name}")

    def close(self) -> None:
        self.wire.close()
        super().close()


@pytest.fixture(scope="module")
def bucket_server() -> Iterator[Bucket]:
    server = Bucket()
    yield server
    server.close()


@pytest.fixture
def bucket(
    bucket_server: Bucket, videos_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bucket]:
    """An empty bucket that keeps the videos of this test."""
    for name, value in bucket_server.environment.items():
        if not name.startswith("VIDEOS_"):
            monkeypatch.setenv(name, value)
    settings.STORAGES = {**settings.STORAGES, "s3": s3_storage(BUCKET)}
    settings.VIDEOS = {**settings.VIDEOS, "STORAGE": "s3"}
    bucket_server.empty()
    yield bucket_server
    bucket_server.wire.mend()
    bucket_server.be_busy(0)


def address(video: Video, name: str) -> str:
    return f"/v/{video.slug}/g{current(video).number}/{name}"


def watch(client: Client, video: Video, into: Path) -> list[str]:
    """Everything that a player would load, through the site, written to a folder. The signed addresses that it met."""
    signed: list[str] = []

    def load(name: str) -> bytes:
        answer: Any = client.get(address(video, name))
        if name.endswith((".m3u8", ".vtt")):
            assert answer.status_code == 200
            data = b"".join(answer.streaming_content)
        else:
            assert answer.status_code == 302, f"{name}: {answer.status_code}"
            signed.append(answer["Location"])
            found = fetch(answer["Location"])
            assert found.status_code == 200, f"{name}: {found.status_code}"
            data = found.content
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return bytes(data)

    master = m3u8.loads(load("master.m3u8").decode())
    for name in [*(one.uri for one in master.playlists), *(one.uri for one in master.media)]:
        playlist = m3u8.loads(load(name).decode())
        folder = name.rpartition("/")[0]
        for uri in [*(part.uri for part in playlist.segment_map), *(part.uri for part in playlist.segments)]:
            load(f"{folder}/{uri}")
    load("poster.jpg")
    return signed


def check_watched(client: Client, video: Video, into: Path) -> list[str]:
    """What a player gets is conformant, decoded frame by frame."""
    signed = watch(client, video, into)
    conformance.check(into, assembling.published_plan(current(video)), sync=True)
    return signed


def lifetime(url: str) -> int:
    return int(parse_qs(urlsplit(url).query)["X-Amz-Expires"][0])
