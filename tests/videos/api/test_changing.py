"""The API of videos: what may be changed, and bodies that make no sense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from tests.support.pages.video_admin import EVIL
from tests.support.pages.video_admin import video as video
from tests.support.pages.videos_api_client import NOBODY, VIDEOS, bare, refused, send
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.videos.video_site import channel
from videos.models import Transcode, Video

pytestmark = pytest.mark.django_db


def test_what_may_change_is_changed_and_the_rest_stays(video: Video, admin_client: Client) -> None:
    at = f"{VIDEOS}/{video.pk}"
    other = channel("other")
    change = {"title": "  New\n title ", "visibility": "unlisted", "channel": other.pk, "owner": "bob"}
    shown = send(admin_client, "PATCH", at, change).json()
    assert (shown["title"], shown["visibility"], shown["channel_id"], shown["owner"]) == (
        "New title",
        "unlisted",
        other.pk,
        "bob",
    )
    assert shown["slug"] == "film"
    assert "channel, owner, title, visibility" in LogEntry.objects.get().change_message
    assert send(admin_client, "PATCH", at, {"title": "New title"}).status_code == 200
    assert send(admin_client, "PATCH", at, {}).status_code == 200
    assert LogEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"title": ""}, "title"),
        ({"title": " \n "}, "title"),
        ({"title": "t" * 301}, "title"),
        ({"title": None}, "title"),
        ({"title": 7}, "title"),
        ({"title": ["x"]}, "title"),
        ({"title": "a\0b"}, "title"),
        ('{"title": "\\ud800"}', "title"),
        ('{"title": NaN}', "title"),
        ({"visibility": "secret"}, "visibility"),
        ({"visibility": None}, "visibility"),
        ({"channel": 0}, "channel"),
        ({"channel": -1}, "channel"),
        ({"channel": 2**63}, "channel"),
        ({"channel": 99999}, "channel"),
        ({"channel": 1.5}, "channel"),
        ({"channel": True}, "channel"),
        ('{"channel": Infinity}', "channel"),
        ('{"channel": 1e400}', "channel"),
        ({"owner": "o" * 201}, "owner"),
        ({"owner": None}, "owner"),
        ({"status": "ready"}, "status"),
        ({"slug": "x"}, "slug"),
        ({"id": NOBODY}, "id"),
        ({"deleted_at": None}, "deleted_at"),
        ({"title": "Fine", "source_sha256": "0"}, "source_sha256"),
        ({EVIL: 1}, EVIL),
        ([], ""),
        ("7", ""),
        ("null", ""),
        ('"text"', ""),
    ],
)
def test_changes_that_make_no_sense_change_nothing(admin_client: Client, body: Any, field: str) -> None:
    made = bare("film", title="Old")
    assert refused(send(admin_client, "PATCH", f"{VIDEOS}/{made.pk}", body), 422, "invalid", field)
    made.refresh_from_db()
    assert (made.title, made.visibility, made.channel_id) == ("Old", "public", channel().pk)
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    "body", ["{", "", b"\xff\xfe", '{"a": ' * 1000 + "1" + "}" * 1000, "[" * 100_000, "{'title': 'x'}", "\0"]
)
def test_bodies_that_are_no_json(admin_client: Client, body: str | bytes) -> None:
    made = bare("film", title="Old")
    for method, at in (("PATCH", ""), ("POST", "/retranscode"), ("POST", "/retry")):
        answer = send(admin_client, method, f"{VIDEOS}/{made.pk}{at}", body)
        if body == "" and method == "POST":  # then nothing is said
            continue
        assert answer.status_code in (400, 422), (method, at)
        assert set(answer.json()) == {"error", "detail"}
    assert Transcode.objects.get().is_active, "nothing was done to it"


def test_a_body_that_is_too_large(admin_client: Client) -> None:
    made = bare("film", title="Old")
    body = json.dumps({"title": "t" * 3_000_000})
    assert refused(send(admin_client, "PATCH", f"{VIDEOS}/{made.pk}", body), 413, "too_large")


def test_a_channel_takes_no_second_video_of_one_name(admin_client: Client) -> None:
    made, other = bare("film"), channel("other")
    bare("film-2", handle="film", channel=other)
    assert refused(
        send(admin_client, "PATCH", f"{VIDEOS}/{made.pk}", {"channel": other.pk}),
        409,
        "not_possible",
        "channel",
    )
    made.refresh_from_db()
    assert made.channel_id == channel().pk
