"""Videos in the admin: who may do what, who is told what, and nothing changes by looking."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from jobs.models import Job
from tests.support.pages.video_admin import LIST, page_of, send
from tests.support.pages.video_admin import failed as failed
from tests.support.pages.video_admin import video as video
from tests.support.videos.video_site import client_of, clip
from videos.models import Transcode, Video, VideoStatus
from videos.verbs import VERBS, situation_of

pytestmark = pytest.mark.django_db


def test_the_permission_matrix(video: Video) -> None:
    seen = situation_of(video).seen
    pages = (LIST, f"{LIST}{video.pk}/change/", f"{LIST}live/?video={video.pk}", f"{LIST}{video.pk}/live/")
    post = f"{LIST}{video.pk}/act/"
    subtitles = f"{LIST}{video.pk}/subtitles/"

    def verdicts(client: Client) -> dict[str, set[int]]:
        headers = {"Accept": "application/json"}
        return {
            "look": {client.get(address, headers=headers).status_code for address in pages},
            "upload page": {client.get(f"{LIST}add/").status_code},
            "upload": {send(client, clip(50), name="again.mp4", channel="").status_code},
            "act": {
                client.post(post, {"verb": verb.name, "seen": "stale" + seen}).status_code
                for verb in VERBS
                if verb.name != "purge"
            },
            "purge": {
                client.post(post, {"verb": "purge", "seen": "stale"}).status_code,
            },
            "subtitles": {client.post(subtitles, {"language": "en"}).status_code},
        }

    def all_of(status: int) -> dict[str, set[int]]:
        return {what: {status} for what in ("look", "upload page", "upload", "act", "purge", "subtitles")}

    expected: dict[str, tuple[Client, dict[str, set[int]]]] = {
        "anonymous": (Client(), all_of(302)),
        "not staff": (client_of("view_video", "change_video", staff=False), all_of(302)),
        "without rights": (client_of(), all_of(403)),
        "view only": (client_of("view_video"), {**all_of(403), "look": {200}}),
        "change": (
            client_of("view_video", "change_video"),
            {**all_of(403), "look": {200}, "act": {302}},
        ),
        "full": (
            client_of("view_video", "change_video", "add_video", "delete_video", "add_subtitle"),
            {
                "look": {200},
                "upload page": {200},
                "upload": {422},
                "act": {302},
                "purge": {302},
                "subtitles": {302},
            },
        ),
    }
    for who, (client, wanted) in expected.items():
        assert verdicts(client) == wanted, who
    assert Video.objects.get().status == VideoStatus.READY
    assert Transcode.objects.count() == 1
    assert not LogEntry.objects.exists()


def test_who_may_only_look_sees_no_buttons_and_may_watch_what_is_private(video: Video) -> None:
    Video.objects.update(visibility="private")
    client = client_of("view_video")
    page = page_of(client, video)
    for absent in ("/act/", "Transcode again", "Upload subtitles", "Upload videos", 'name="_save"'):
        assert absent not in page
    assert client.get("/v/film/g1/master.m3u8").status_code == 200


def test_an_upload_and_an_act_without_the_csrf_token_are_refused(video: Video, admin_user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert send(client, clip(50)).status_code == 403
    order = {"verb": "delete", "seen": situation_of(video).seen}
    assert client.post(f"{LIST}{video.pk}/act/", order).status_code == 403
    assert Video.objects.get().deleted_at is None


def test_why_a_video_failed_is_told_to_those_who_run_the_site_alone(
    failed: Video, admin_client: Client
) -> None:
    assert "cancelled" in admin_client.get("/v/failed/status").json()["error"]
    assert Client().get("/v/failed/status").json()["error"] == ""
    assert "cancelled" not in Client().get("/v/failed/").content.decode()
    stream = Client().get("/v/failed/events", headers={"Accept": "application/json"}).content.decode()
    assert 'data-state=\\"failed\\"' in stream
    assert "cancelled" not in stream


def test_jobs_are_left_alone_by_looking(video: Video, admin_client: Client) -> None:
    before = list(Job.objects.order_by("pk").values())
    for address in (LIST, f"{LIST}{video.pk}/change/", f"{LIST}{video.pk}/purge/", "/v/film/"):
        assert admin_client.get(address, {"verb": "purge", "action": "purge"}).status_code in (200, 302)
    assert list(Job.objects.order_by("pk").values()) == before
