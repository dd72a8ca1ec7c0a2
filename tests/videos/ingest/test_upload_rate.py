"""How many uploads one user may begin in a minute: one allowance for all ways, shared by all web processes."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from jobs.models import RateWindow
from tests.support.servers.tus import Tus
from tests.support.videos.video_site import channel, clip
from videos.models import ResumableUpload, Video

pytestmark = pytest.mark.django_db

WAYS = ("tus", "form", "page")


@pytest.fixture(autouse=True)
def _two_a_minute(videos_root: Any, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_RATE": 2}


def begin(way: str, client: Client, content: bytes = b"no video") -> Any:
    if way == "tus":
        return Tus(client).begin(len(content))
    if way == "form":
        return client.post(
            "/api/videos", {"channel": channel().pk, "file": SimpleUploadedFile("f.mp4", content)}
        )
    return client.post(
        "/admin/videos/video/upload/",
        content,
        content_type="application/octet-stream",
        query_params={"name": "f.mp4", "channel": str(channel().pk)},
    )


@pytest.mark.parametrize("way", WAYS)
def test_too_many_uploads_are_answered_with_429_and_when_to_come_back(way: str, admin_client: Client) -> None:
    film = clip().read_bytes()
    for _ in range(2):
        assert begin(way, admin_client, film).status_code in (200, 201)
    before = (ResumableUpload.objects.count(), Video.objects.count())
    refused = begin(way, admin_client, film)
    assert (refused.status_code, refused.json()["error"]) == (429, "too_many_tries")
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert (ResumableUpload.objects.count(), Video.objects.count()) == before
    RateWindow.objects.all().delete()  # the minute is over
    assert begin(way, admin_client, film).status_code in (200, 201)


def test_all_ways_count_together_and_each_user_for_himself(admin_client: Client) -> None:
    assert [begin(way, admin_client).status_code for way in WAYS] == [201, 422, 429]
    other = Client()
    other.force_login(User.objects.create_superuser("other"))
    assert begin("tus", other).status_code == 201


def test_who_may_not_upload_uses_up_nothing(client: Client) -> None:
    client.force_login(User.objects.create_user("nobody"))
    for way in WAYS:
        assert begin(way, client).status_code in (302, 403)
    assert not RateWindow.objects.exists()
