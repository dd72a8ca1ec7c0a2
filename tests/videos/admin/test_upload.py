"""Uploads in the admin: the body of a POST becomes a video, or is refused with the reason and leaves nothing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from tests.support.pages.video_admin import EVIL, LIST, send
from tests.support.videos.video_site import channel, clip, files_in
from videos.models import Video

pytestmark = pytest.mark.django_db


def test_an_upload_becomes_a_video_of_its_uploader(videos_root: Path, admin_client: Client) -> None:
    channel()
    assert 'id="v-drop"' in admin_client.get(f"{LIST}add/").content.decode()
    answer = send(admin_client, clip(50), name=f"{EVIL}.mp4", visibility="private")
    assert answer.status_code == 201
    video = Video.objects.get(pk=answer.json()["id"])
    assert (video.owner, video.visibility, video.title) == ("admin", "private", "script>")
    assert answer.json()["admin"] == f"{LIST}{video.pk}/change/"
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.object_id) == (ADDITION, video.pk)


def test_the_same_file_twice_is_one_video(videos_root: Path, admin_client: Client) -> None:
    first, second = send(admin_client, clip(50)), send(admin_client, clip(50))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert second.json()["created"] is False
    assert LogEntry.objects.count() == 1


def test_what_is_refused_leaves_no_row_and_no_file(
    videos_root: Path, admin_client: Client, tmp_path: Path, settings: Settings
) -> None:
    text = tmp_path / "film.mp4"
    text.write_text("a letter " * 100)
    refused = send(admin_client, text)
    assert (refused.status_code, refused.json()["error"]) == (422, "refused")
    assert refused.json()["detail"]
    for query in ({"channel": ""}, {"channel": "99999"}, {"channel": "x"}, {"channel": "9" * 30}):
        refused = send(admin_client, clip(50), **query)
        assert (refused.status_code, refused.json()["error"]) == (422, "refused")
    assert send(admin_client, clip(50), visibility="secret").status_code == 422
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_MAX_BYTES": 100}
    large = send(admin_client, clip(50))
    assert (large.status_code, large.json()["error"]) == (413, "too_large")
    assert "100" in large.json()["detail"]
    assert admin_client.get(f"{LIST}upload/").status_code == 405
    form = admin_client.post(f"{LIST}upload/", {"file": SimpleUploadedFile("a.mp4", b"x")})
    assert form.status_code == 415
    assert not Video.objects.exists()
    assert not LogEntry.objects.exists()
    assert files_in(videos_root) == {}


def test_a_file_that_was_cut_off_on_its_way_is_refused(videos_root: Path, admin_client: Client) -> None:
    data = clip(50).read_bytes()
    wire: dict[str, Any] = {"CONTENT_LENGTH": len(data) + 1000, "wsgi.input": io.BytesIO(data)}
    answer = admin_client.post(
        f"{LIST}upload/",
        data,
        content_type="application/octet-stream",
        query_params={"name": "film.mp4", "channel": channel().pk},
        **wire,
    )
    assert (answer.status_code, answer.json()["error"]) == (422, "refused")
    assert not Video.objects.exists()
    assert files_in(videos_root) == {}


def test_without_a_channel_the_page_says_what_to_do_first(admin_client: Client) -> None:
    page = admin_client.get(f"{LIST}add/").content.decode()
    assert 'data-state="no_channel"' in page
    assert 'href="/admin/videos/channel/add/"' in page
