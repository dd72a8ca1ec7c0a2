"""The API of videos: who may what, by a session or by nothing at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from tests.support.pages.video_admin import failed as failed
from tests.support.pages.videos_api_client import VIDEOS, refused, send, upload
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.videos.video_site import channel, client_of, files_in
from videos.models import Video

pytestmark = pytest.mark.django_db


def test_the_permission_matrix(failed: Video) -> None:
    at, of_channel = f"{VIDEOS}/{failed.pk}", f"/api/channels/{channel().pk}"

    def verdicts(client: Client) -> dict[str, set[int]]:
        return {
            "look": {client.get(address).status_code for address in (VIDEOS, at, f"{of_channel}/videos")},
            "channel": {client.get(of_channel).status_code},
            "upload": {upload(client, channel="nowhere").status_code},
            "change": {
                send(client, "PATCH", at, {"title": 7}).status_code,
                send(client, "POST", f"{at}/retranscode", {"qualities": ["9p"]}).status_code,
                send(client, "POST", f"{at}/retry", {"quality": "9p"}).status_code,
            },
            "restore": {send(client, "POST", f"{at}/restore").status_code},
        }

    def all_of(status: int) -> dict[str, set[int]]:
        return {what: {status} for what in ("look", "channel", "upload", "change", "restore")}

    rights = ("view_video", "change_video", "add_video", "delete_video", "view_channel")
    expected: dict[str, tuple[Client, dict[str, set[int]]]] = {
        "anonymous": (Client(), all_of(401)),
        "not staff": (client_of(*rights, staff=False), all_of(403)),
        "without rights": (client_of(), all_of(403)),
        "view only": (client_of("view_video"), {**all_of(403), "look": {200}}),
        "channels": (client_of("view_channel"), {**all_of(403), "channel": {200}}),
        "upload only": (client_of("add_video"), {**all_of(403), "upload": {422}}),
        "purge only": (client_of("delete_video"), all_of(403)),
        "change": (
            client_of("change_video"),
            {**all_of(403), "look": {200}, "change": {422}, "restore": {409}},
        ),
        "all": (
            client_of(*rights),
            {"look": {200}, "channel": {200}, "upload": {422}, "change": {422}, "restore": {409}},
        ),
    }
    for who, (client, wanted) in expected.items():
        assert verdicts(client) == wanted, who
        if wanted["change"] != {422}:
            assert send(client, "DELETE", at).status_code in (401, 403), who
    assert Video.objects.get().deleted_at is None
    assert not LogEntry.objects.exists()


def test_a_session_needs_the_csrf_token_and_nothing_is_stored_before(
    failed: Video, videos_root: Path
) -> None:
    client = client_of("view_video", "change_video", "add_video", csrf=True)
    at = f"{VIDEOS}/{failed.pk}"
    before = files_in(videos_root)
    assert refused(send(client, "DELETE", at), 403, "csrf")
    assert refused(send(client, "PATCH", at, {"title": "x"}), 403, "csrf")
    assert refused(send(client, "POST", f"{at}/retry"), 403, "csrf")
    assert refused(upload(client, title="New"), 403, "csrf")
    assert files_in(videos_root) == before
    assert Video.objects.count() == 1
    token = client.get("/admin/videos/video/add/").context["csrf"]
    assert (
        client.patch(
            at, {"title": "x"}, content_type="application/json", headers={"X-CSRFToken": token}
        ).status_code
        == 200
    )
    assert upload(client, title="New", csrfmiddlewaretoken=token).status_code == 201


def test_who_may_not_upload_is_told_so_before_the_file_is_read(videos_root: Path) -> None:
    class Wire(io.BytesIO):
        def read(self, *arguments: Any) -> bytes:
            raise AssertionError("the body was read")

    kind = "multipart/form-data; boundary=b"
    wire: dict[str, Any] = {"wsgi.input": Wire(), "CONTENT_LENGTH": "1000"}
    for client, status in ((Client(), 401), (client_of("view_video"), 403)):
        assert client.generic("POST", VIDEOS, b"", content_type=kind, **wire).status_code == status
