"""A disk that fills up under an upload: 507, what has arrived is kept, and room lets it go on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from tests.support.servers.small_disk import resize as resize  # a fixture
from tests.support.servers.tus import Tus
from tests.support.videos.video_site import channel, clip
from videos import storage
from videos.models import ResumableUpload, Video

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_reserve(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk seems to have room until it has none: somebody else fills it meanwhile."""
    monkeypatch.setattr(storage, "capacity", lambda: (10**15, 10**15))


def test_a_disk_without_room_takes_no_upload(
    resize: Callable[[str], None], admin_client: Client, videos_root: Path
) -> None:
    tus, film = Tus(admin_client), clip().read_bytes()
    refused = tus.begin(len(film))
    assert (refused.status_code, refused.json()["error"]) == (507, "no_room")
    assert not ResumableUpload.objects.exists()
    assert list(videos_root.iterdir()) == []


@pytest.mark.parametrize("with_checksum", [False, True])
def test_a_disk_that_fills_up_keeps_what_fits_and_room_lets_it_go_on(
    resize: Callable[[str], None], blind: None, admin_client: Client, with_checksum: bool
) -> None:
    tus, film = Tus(admin_client), clip().read_bytes()
    place = tus.begun(len(film))
    more: dict[str, Any] = {"Upload_Checksum": "sha1 AAAA"} if with_checksum else {}
    full = tus.patch(place, 0, film, **more)
    assert (full.status_code, full.json()["error"]) == (507, "no_room")
    there = tus.offset(place)
    assert there == 0 if with_checksum else 0 < there <= 16 * 1024
    assert not Video.objects.exists()
    resize("16m")
    assert tus.patch(place, there, film[there:]).status_code == 204
    assert Video.objects.get().source_sha256 == hashlib.sha256(film).hexdigest()


def test_a_disk_that_fills_up_under_a_form_leaves_nothing(
    resize: Callable[[str], None], blind: None, admin_client: Client, videos_root: Path
) -> None:
    form = {"channel": channel().pk, "file": SimpleUploadedFile("film.mp4", clip().read_bytes())}
    full = admin_client.post("/api/videos", form)
    assert (full.status_code, full.json()["error"]) == (507, "no_room")
    assert not Video.objects.exists()
    assert [path for path in videos_root.rglob("*") if path.is_file()] == []


def test_a_disk_that_fills_up_under_the_upload_page_leaves_nothing(
    resize: Callable[[str], None], admin_client: Client, videos_root: Path
) -> None:
    full = admin_client.post(
        "/admin/videos/video/upload/",
        clip().read_bytes(),
        content_type="application/octet-stream",
        query_params={"name": "film.mp4", "channel": str(channel().pk)},
    )
    assert (full.status_code, full.json()["error"]) == (507, "no_room")
    assert not Video.objects.exists()
    assert [path for path in videos_root.rglob("*") if path.is_file()] == []
