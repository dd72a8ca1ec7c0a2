"""The API of channels: listed, found by slug, created; with the rights of the one who asks."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.support.pages.video_admin import EVIL
from tests.support.pages.videos_api_client import ROW, bare, refused, send
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.queue.actors import race
from tests.support.videos.video_site import channel, client_of
from videos.models import Channel

CHANNELS = "/api/channels"

pytestmark = pytest.mark.django_db


def test_channels_are_listed_with_their_counts_page_by_page(admin_client: Client) -> None:
    for slug in ("films", "talks", "trailers"):
        bare(f"one-of-{slug}", channel=channel(slug))
    channel("empty")
    first = admin_client.get(f"{CHANNELS}?limit=3").json()
    second = admin_client.get(f"{CHANNELS}?limit=3&cursor={first['next']}").json()
    assert [row["slug"] for row in first["channels"]] == ["films", "talks", "trailers"]
    assert [row["counts"] for row in first["channels"]] == [{**ROW, "pending": 1}] * 3
    assert [(row["slug"], row["counts"]) for row in second["channels"]] == [("empty", ROW)]
    assert second["next"] is None
    assert first["channels"][0] == admin_client.get(f"{CHANNELS}/{channel('films').pk}").json()


def test_a_channel_is_found_by_its_slug(admin_client: Client) -> None:
    channel("films"), channel("films-2")

    def found(query: str) -> list[str]:
        return [row["slug"] for row in admin_client.get(f"{CHANNELS}?{query}").json()["channels"]]

    assert found("slug=films") == ["films"]
    assert found("slug=FILMS") == found("slug=nowhere") == []
    assert found("q=FILM") == ["films", "films-2"]


def test_a_list_asks_few_questions_however_many_channels_there_are(admin_client: Client) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert admin_client.get(CHANNELS).status_code == 200
        return len(queries)

    channel("one")
    few = cost()
    for number in range(20):
        channel(f"channel-{number}")
    assert cost() == few


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("limit=0", "limit"), ("limit=201", "limit"), ("cursor=x", "cursor"), ("cursor=-1", "cursor")),
        *((f"cursor={2**63}", "cursor"), ("slug=%00", "slug"), ("q=" + "a" * 201, "q"), ("name=x", "name")),
    ],
)
def test_filters_that_make_no_sense_are_named(admin_client: Client, query: str, field: str) -> None:
    assert refused(admin_client.get(f"{CHANNELS}?{query}"), 422, "invalid", field)


def test_a_channel_is_created_once_however_often_it_is_asked_for(admin_client: Client) -> None:
    made = send(admin_client, "POST", CHANNELS, {"name": "  Short \n films "})
    assert made.status_code == 201
    assert made.json()["created"] is True
    row = made.json()["channel"]
    assert (row["name"], row["slug"], row["counts"]) == ("Short films", "short-films", ROW)
    again = send(admin_client, "POST", CHANNELS, {"name": "Short films"})
    assert (again.status_code, again.json()) == (200, {"channel": row, "created": False})
    assert send(admin_client, "POST", CHANNELS, {"name": "映画", "slug": "eiga"}).status_code == 201
    assert Channel.objects.count() == 2
    assert list(LogEntry.objects.values_list("object_repr", flat=True)) == ["映画", "Short films"]


def test_a_slug_that_another_channel_has_is_refused(admin_client: Client) -> None:
    channel("films")
    taken = send(admin_client, "POST", CHANNELS, {"name": EVIL, "slug": "films"})
    assert refused(taken, 409, "slug_taken", "slug: ")
    assert Channel.objects.get().name == "Films"


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "name"),
        ({"name": ""}, 422, "name"),
        ({"name": " \n"}, 422, "name"),
        ({"name": "a\0b"}, 422, "name"),
        ({"name": "a" * 201}, 422, "name"),
        ({"name": 7}, 422, "name"),
        ({"name": None}, 422, "name"),
        ({"name": "Films", "slug": "Films"}, 422, "slug"),
        ({"name": "Films", "slug": "../films"}, 422, "slug"),
        ({"name": "Films", "slug": "a b"}, 422, "slug"),
        ({"name": "Films", "slug": "-films"}, 422, "slug"),
        ({"name": "Films", "slug": "2024"}, 422, "slug"),
        ({"name": "Films", "slug": "a" * 151}, 422, "slug"),
        ({"name": "2024"}, 422, "slug"),
        ({"name": "映画"}, 422, "slug"),
        ({"name": "Films", "owner": "me"}, 422, "owner"),
        ("[", 400, "body"),
        ("[]", 422, ""),
    ],
)
def test_what_is_no_channel_is_refused_with_the_field(
    admin_client: Client, body: object, status: int, field: str
) -> None:
    assert refused(send(admin_client, "POST", CHANNELS, body), status, "invalid", field)
    assert not Channel.objects.exists()


def test_who_may_see_and_who_may_create() -> None:
    def verdicts(client: Client) -> tuple[int, int]:
        asked = client.get(CHANNELS).status_code
        return asked, send(client, "POST", CHANNELS, {"name": ""}).status_code

    assert verdicts(Client()) == (401, 401)
    assert verdicts(client_of("view_channel", "add_channel", staff=False)) == (403, 403)
    assert verdicts(client_of("view_video")) == (403, 403)
    assert verdicts(client_of("view_channel")) == verdicts(client_of("change_channel")) == (200, 403)
    assert verdicts(client_of("add_channel")) == (403, 422)
    unprotected = send(client_of("add_channel", csrf=True), "POST", CHANNELS, {"name": "Films"})
    assert refused(unprotected, 403, "csrf")


@pytest.mark.django_db(transaction=True)
def test_of_requests_at_the_same_time_one_creates_it(admin_client: Client) -> None:
    cookies = admin_client.cookies

    def create() -> int:
        client = Client()
        client.cookies = cookies
        return int(send(client, "POST", CHANNELS, {"name": "Films"}).status_code)

    assert sorted(race([create] * 4)) == [200, 200, 200, 201]
    assert Channel.objects.count() == 1
