"""What the tests of resumable uploads share: a client that says each header itself, right or wrong, and a film."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tests.support.videos.video_site import channel, clip, files_in
from videos.models import ResumableUpload, Video
from videos.resumable import uploads

UPLOADS = "/api/uploads/"
CHUNK = "application/offset+octet-stream"
DAY = timedelta(days=1, minutes=1)


def encoded(**metadata: str) -> str:
    return ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in metadata.items())


class Tus:
    def __init__(self, client: Client) -> None:
        self.client = client

    def begin(self, length: object, metadata: str | None = None, **headers: str) -> Any:
        if metadata is None:
            metadata = encoded(filename="My film.mp4", channel=str(channel().pk))
        headers = {"Upload-Length": str(length), "Upload-Metadata": metadata, **self._plus(headers)}
        return self.client.post(UPLOADS, content_type="text/plain", headers=headers)

    def begun(self, length: int, metadata: str | None = None) -> str:
        """The address of a new upload."""
        answer = self.begin(length, metadata)
        assert answer.status_code == 201, answer.content
        return str(answer["Location"])

    def patch(
        self, place: str, offset: object, data: bytes, *, content_type: str = CHUNK, **headers: str
    ) -> Any:
        headers = {"Upload-Offset": str(offset), **self._plus(headers)}
        wire: dict[str, Any] = {"wsgi.input": headers.pop("wire")} if "wire" in headers else {}
        return self.client.patch(place, data, content_type=content_type, headers=headers, **wire)

    def head(self, place: str, **headers: str) -> Any:
        return self.client.head(place, headers=self._plus(headers))

    def offset(self, place: str) -> int:
        answer = self.head(place)
        assert answer.status_code == 200, answer.status_code
        return int(answer["Upload-Offset"])

    def delete(self, place: str, **headers: str) -> Any:
        return self.client.delete(place, headers=self._plus(headers))

    def _plus(self, headers: dict[str, str]) -> dict[str, Any]:
        return {
            "Tus-Resumable": "1.0.0",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }


@pytest.fixture
def tus(admin_client: Client, videos_root: Path, settings: Settings) -> Tus:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}
    return Tus(admin_client)


@pytest.fixture
def film() -> bytes:
    return clip(50).read_bytes()


def sha(data: bytes, algorithm: str = "sha1") -> str:
    return f"{algorithm} {b64encode(hashlib.new(algorithm, data).digest()).decode()}"


def nothing_is_left(root: Path) -> bool:
    return not Video.objects.exists() and not ResumableUpload.objects.exists() and files_in(root) == {}


def pen_of(place: str) -> Any:
    """The right to write to an upload, as another request has it."""
    return uploads.arriving(ResumableUpload.objects.get(pk=place.removeprefix(UPLOADS))).writing()


def film_for(**metadata: str) -> str:
    return encoded(filename="film.mp4", **{"channel": str(channel().pk), **metadata})
