"""The API of videos: lists, filters and pages; videos and channels as they are."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.support.pages.video_admin import EVIL
from tests.support.pages.video_admin import failed as failed
from tests.support.pages.video_admin import video as video
from tests.support.pages.videos_api_client import NOBODY, ROW, VIDEOS, bare, refused, send
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.videos.video_site import channel
from videos import intervening
from videos.models import Channel, Subtitle, Video

pytestmark = pytest.mark.django_db


def test_a_video_is_shown_as_it_is(video: Video, admin_client: Client) -> None:
    shown = send(admin_client, "GET", f"{VIDEOS}/{video.pk}").json()
    assert (shown["id"], shown["title"], shown["status"], shown["generation"]) == (video.pk, EVIL, "ready", 1)
    assert (shown["owner"], shown["percent"], shown["width"]) == ("ann", 100.0, 640)
    assert {share["quality"]: share["status"] for share in shown["qualities"]}["360p"] == "completed"
    assert shown["possible"] == ["retranscode", "delete"]
    assert send(admin_client, "GET", f"{VIDEOS}/{video.pk}")["Content-Type"].startswith("application/json")


def test_lists_are_filtered_counted_and_cut_into_pages(admin_client: Client) -> None:
    for number in range(5):
        made = bare(f"film-{number}")
        if number % 2:
            intervening.cancel(made)
    bare("secret", visibility="private", owner="bob")
    bare("other", channel=channel("other"))
    gone = bare("gone")
    intervening.delete(gone)

    def found(query: str) -> list[str]:
        answer = admin_client.get(f"{VIDEOS}?{query}")
        assert answer.status_code == 200, answer.content
        return [row["slug"] for row in answer.json()["videos"]]

    assert found("") == ["other", "secret", "film-4", "film-3", "film-2", "film-1", "film-0"]
    assert found("status=failed") == ["film-3", "film-1"]
    assert found(f"channel={channel('other').pk}") == ["other"]
    assert found("visibility=private") == found("owner=bob") == found("q=SECR") == ["secret"]
    assert found("deleted=yes") == ["gone"]
    assert len(found("deleted=any")) == 8
    first = admin_client.get(f"{VIDEOS}?limit=3&q=film").json()
    assert first["counts"] == {**ROW, "failed": 2, "pending": 3}
    second = admin_client.get(f"{VIDEOS}?limit=3&q=film&cursor={first['next']}").json()
    assert [row["slug"] for row in first["videos"] + second["videos"]] == [
        f"film-{number}" for number in (4, 3, 2, 1, 0)
    ]
    assert second["next"] is None
    assert admin_client.get(f"{VIDEOS}?status=failed").json()["counts"]["pending"] == 5


def test_a_list_asks_few_questions_however_long_it_is(admin_client: Client) -> None:
    def cost() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert admin_client.get(VIDEOS).status_code == 200
        return len(queries)

    bare("one")
    few = cost()
    for number in range(30):
        bare(f"film-{number}")
    assert cost() == few


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=done", "status"),
        ("status=", "status"),
        ("visibility=secret", "visibility"),
        ("deleted=maybe", "deleted"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=NaN", "limit"),
        ("limit=-1", "limit"),
        ("channel=0", "channel"),
        ("channel=-5", "channel"),
        ("channel=x", "channel"),
        (f"channel={2**63}", "channel"),
        ("channel=" + "9" * 5000, "channel"),
        ("cursor=x", "cursor"),
        (f"cursor={NOBODY.lower()}", "cursor"),
        ("q=a%00b", "q"),
        ("owner=%00", "owner"),
        ("q=" + "a" * 201, "q"),
        ("staus=failed", "staus"),
        ("status[]=failed", "status[]"),
        ("%00=1", ""),
    ],
)
def test_filters_that_make_no_sense_are_named(admin_client: Client, query: str, field: str) -> None:
    assert refused(admin_client.get(f"{VIDEOS}?{query}"), 422, "invalid", field)


def test_a_channel_is_shown_with_its_counts_and_its_videos(
    video: Video, failed: Video, admin_client: Client
) -> None:
    at = f"/api/channels/{channel().pk}"
    bare("elsewhere", channel=channel("other"))
    shown = admin_client.get(at).json()
    assert (shown["slug"], shown["counts"]) == ("films", {**ROW, "ready": 1, "failed": 1})
    page = admin_client.get(f"{at}/videos?status=failed").json()
    assert [row["slug"] for row in page["videos"]] == ["failed"]
    assert page["counts"] == shown["counts"]
    for nowhere in ("/api/channels/999999", "/api/channels/999999/videos"):
        assert refused(admin_client.get(nowhere), 404, "not_found")
    for nonsense in ("0", "-1", "x", str(2**63), "1.5", "NaN"):
        assert refused(admin_client.get(f"/api/channels/{nonsense}"), 422, "invalid", "channel_id")
    assert refused(admin_client.get(f"{at}/videos?channel=1"), 422, "invalid", "channel")


@pytest.mark.parametrize("nowhere", [NOBODY, "x", "..", "%2e%2e", "%00", NOBODY.lower(), "1" * 5000, "é"])
def test_what_is_not_there(admin_client: Client, nowhere: str) -> None:
    at = f"{VIDEOS}/{nowhere}"
    for method, address in (
        *(("GET", at), ("PATCH", at), ("DELETE", at)),
        *(("POST", f"{at}/{verb}") for verb in ("retry", "retranscode", "restore")),
    ):
        assert refused(
            send(admin_client, method, address, {} if method == "PATCH" else None), 404, "not_found"
        )


def test_other_addresses_and_methods_answer_in_the_same_form(video: Video, admin_client: Client) -> None:
    for address in (f"{VIDEOS}/", f"{VIDEOS}/{video.pk}/explode", f"{VIDEOS}/{video.pk}/", "/api/channels/"):
        assert refused(send(admin_client, "GET", address), 404, "not_found")
    for method, address in (("PUT", VIDEOS), ("DELETE", VIDEOS), ("GET", f"{VIDEOS}/{video.pk}/retry")):
        answer = send(admin_client, method, address)
        assert refused(answer, 405, "method_not_allowed")
        assert answer["Allow"]


def test_texts_are_given_as_they_are_and_never_as_a_page(failed: Video, admin_client: Client) -> None:
    Video.objects.update(error_message=EVIL, owner=EVIL, source_name=EVIL, warning=EVIL)
    Channel.objects.update(name=EVIL)
    Subtitle.objects.create(video=failed, language="en", webvtt="WEBVTT", source="uploaded")
    for address in (VIDEOS, f"{VIDEOS}/{failed.pk}", f"/api/channels/{channel().pk}"):
        answer = admin_client.get(address)
        assert answer["Content-Type"].startswith("application/json")
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Cache-Control"] == "no-store"
        assert EVIL in json.dumps(answer.json())
