"""The pages and the files behind them: types, ranges, caching, and who may see what."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient, Client
from pytest_django import Settings

from jobs import file_responses
from jobs.testing import run_due_jobs
from tests.support.videos.video_site import accept, channel, clip, current, files_in
from videos import intervening, storage
from videos.models import Video, Visibility

pytestmark = pytest.mark.django_db


@pytest.fixture
def video(videos_root: Path) -> Video:
    made = accept(clip(50), slug="film", title="<b>Film</b>", owner="ann")
    run_due_jobs()
    made.refresh_from_db()
    return made


def every_address(video: Video) -> Iterator[str]:
    transcode = current(video)
    for name in files_in(storage.generation(transcode)):
        if not name.startswith("manifests/"):
            yield f"/v/{video.slug}/g{transcode.number}/{name}"


def body(response: object) -> bytes:
    return b"".join(response.streaming_content)  # type: ignore[attr-defined]


def test_the_page_of_a_video_names_its_master_playlist(video: Video, client: Client) -> None:
    page = client.get("/v/film/").content.decode()
    assert 'src="/v/film/g1/master.m3u8"' in page
    assert 'poster="/v/film/g1/poster.jpg"' in page
    assert "&lt;b&gt;Film&lt;/b&gt;" in page


def test_the_page_of_a_video_that_is_not_ready_shows_how_far_it_is(videos_root: Path, client: Client) -> None:
    accept(clip(50), slug="film")
    run_due_jobs(limit=2)
    page = client.get("/v/film/").content.decode()
    assert re.search('data-state="(pending|processing)"', page)
    now = client.get("/v/film/status").json()
    assert now["status"] in ("pending", "processing")
    assert 0 < now["percent"] < 100
    assert "360p" in [row["quality"] for row in now["qualities"]]


def test_a_channel_lists_what_is_public(video: Video, client: Client) -> None:
    assert "/v/film/" in client.get("/c/films/").content.decode()
    Video.objects.update(visibility=Visibility.UNLISTED)
    assert "/v/film/" not in client.get("/c/films/").content.decode()
    assert client.get("/v/film/").status_code == 200
    assert channel().summary()["ready"] == 1


def test_every_file_has_its_type_and_is_kept_by_caches(video: Video, client: Client) -> None:
    types = {}
    for address in every_address(video):
        response = client.get(address)
        assert response.status_code == 200, address
        assert response["Cache-Control"].startswith("public, max-age=31536000")
        types[address.rsplit(".", 1)[1]] = response["Content-Type"]
        assert body(response) == storage.published_file(video.pk, 1, address.split("/g1/")[1]).read_bytes()
    assert types == {
        "m3u8": "application/vnd.apple.mpegurl",
        "mp4": "video/mp4",
        "m4s": "video/iso.segment",
        "jpg": "image/jpeg",
        "vtt": "text/vtt; charset=utf-8",
    }


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ("bytes=0-9", 206, slice(0, 10)),
        ("bytes=5-", 206, slice(5, None)),
        ("bytes=-7", 206, slice(-7, None)),
        ("bytes=0-99999999", 206, slice(0, None)),
        ("bytes=99999999-", 416, slice(0, 0)),
        ("bytes=-0", 416, slice(0, 0)),
        ("bytes=9-5", 200, slice(0, None)),
        ("bytes=0-1,5-6", 200, slice(0, None)),
        ("pages=1-2", 200, slice(0, None)),
        ("bytes=-", 200, slice(0, None)),
    ],
)
def test_ranges(video: Video, client: Client, asked: str, status: int, part: slice) -> None:
    address = "/v/film/g1/360p/seg_00001.m4s"
    whole = storage.published_file(video.pk, 1, "360p/seg_00001.m4s").read_bytes()
    response = client.get(address, headers={"Range": asked})
    assert response.status_code == status
    if status == 416:
        assert response["Content-Range"] == f"bytes */{len(whole)}"
        return
    assert body(response) == whole[part]
    assert int(response["Content-Length"]) == len(whole[part])
    if status == 206:
        first = part.indices(len(whole))[0]
        assert response["Content-Range"] == f"bytes {first}-{first + len(whole[part]) - 1}/{len(whole)}"


def test_under_asgi_a_file_is_sent_block_by_block(
    video: Video, async_client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_responses, "BLOCK", 1000)
    whole = storage.published_file(video.pk, 1, "360p/seg_00001.m4s").read_bytes()

    async def blocks() -> list[bytes]:
        response: Any = await async_client.get(
            "/v/film/g1/360p/seg_00001.m4s", headers={"Range": "bytes=100-"}
        )
        assert (response.status_code, response.is_async) == (206, True)
        return [block async for block in response.streaming_content]

    sent = async_to_sync(blocks)()
    assert b"".join(sent) == whole[100:]
    assert {len(block) for block in sent[:-1]} == {1000}


def test_what_a_browser_has_is_not_sent_again(video: Video, client: Client) -> None:
    address = "/v/film/g1/master.m3u8"
    first = client.get(address)
    body(first)
    assert client.get(address, headers={"If-None-Match": first["ETag"]}).status_code == 304
    assert client.get(address, headers={"If-Modified-Since": first["Last-Modified"]}).status_code == 304
    stale = client.get(address, headers={"Range": "bytes=0-3", "If-Range": '"another"'})
    assert (stale.status_code, len(body(stale))) == (200, int(stale["Content-Length"]))
    head = client.head(address)
    assert (head.status_code, head["Content-Length"], head.content) == (200, first["Content-Length"], b"")
    assert client.post(address).status_code == 405


@pytest.mark.parametrize(
    "name",
    [
        "../source/clip-50-640x360-1.mp4",
        "..%2fsource%2fclip-50-640x360-1.mp4",
        "%2e%2e/source/clip-50-640x360-1.mp4",
        "/etc/passwd",
        "360p/../../source/clip-50-640x360-1.mp4",
        "360p/..\\..\\x.mp4",
        "manifests/chunk_00001.json",
        ".chunk-1/360p.mp4",
        "360p/",
        "nothing.m3u8",
        "360p/seg_99999.m4s",
        "poster.jpg\x00.m3u8",
    ],
)
def test_nothing_but_published_files_can_be_fetched(video: Video, client: Client, name: str) -> None:
    assert client.get(f"/v/film/g1/{name}").status_code == 404


def test_a_generation_that_is_not_published_cannot_be_fetched(video: Video, client: Client) -> None:
    intervening.retranscode(video)
    run_due_jobs(limit=2)
    assert client.get("/v/film/g2/360p/init.mp4").status_code == 404
    assert client.get("/v/film/g3/360p/init.mp4").status_code == 404
    run_due_jobs()
    assert client.get("/v/film/g2/360p/init.mp4").status_code == 200
    assert client.get("/v/film/g1/360p/init.mp4").status_code == 200, "somebody may be watching it still"


def test_every_file_of_a_private_video_is_private(video: Video, client: Client) -> None:
    Video.objects.update(visibility=Visibility.PRIVATE)
    stranger = User.objects.create_user("bob")
    owner = User.objects.create_user("ann")
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_video"))
    idle_staff = User.objects.create_user("idle", is_staff=True)
    addresses = [*every_address(video), "/v/film/", "/v/film/status"]
    for who, status in ((None, 404), (stranger, 404), (idle_staff, 404), (owner, 200), (clerk, 200)):
        client.logout()
        if who:
            client.force_login(who)
        assert {client.get(address).status_code for address in addresses} == {status}, who
    assert client.get("/v/film/g1/master.m3u8")["Cache-Control"].startswith("private")


def test_a_deleted_video_is_gone_for_everybody(video: Video, client: Client) -> None:
    intervening.delete(video)
    client.force_login(User.objects.create_superuser("root"))
    assert {client.get(a).status_code for a in (*every_address(video), "/v/film/", "/v/film/status")} == {404}


def test_every_page_of_the_admin_opens(video: Video, admin_client: Client) -> None:
    for model in ("channel", "video", "transcode", "qualityprogress", "rendition", "subtitle"):
        assert admin_client.get(f"/admin/videos/{model}/").status_code == 200
    assert admin_client.get(f"/admin/videos/video/{video.pk}/change/").status_code == 200
    assert admin_client.get(f"/admin/videos/transcode/{current(video).pk}/change/").status_code == 200


def test_subtitles_typed_into_the_admin_are_made_safe(video: Video, admin_client: Client) -> None:
    form = {"video": video.pk, "language": "en", "label": "", "webvtt": "nothing"}
    wrong = admin_client.post("/admin/videos/subtitle/add/", form).context["adminform"].form
    assert [error.code for error in wrong.errors.as_data()["webvtt"]] == ["no_subtitles"]
    form["webvtt"] = "WEBVTT\n\n00:01.000 --> 00:02.000\n<script>x</script>Hi"
    admin_client.post("/admin/videos/subtitle/add/", form)
    assert "<script" not in video.subtitles.get().webvtt
    page = admin_client.get("/v/film/").content.decode()
    assert "/v/film/captions/en.vtt" in page
    assert "Hi" in admin_client.get("/v/film/captions/en.vtt").content.decode()


def test_the_pages_carry_a_strict_policy(video: Video, client: Client, settings: Settings) -> None:
    for address in ("/v/film/", "/c/films/"):
        answer = client.get(address)
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "<script>" not in answer.content.decode()
        assert " style=" not in answer.content.decode()
    settings.STATIC_URL = "https://static.example.com/files/"
    assert (
        "script-src 'self' https://static.example.com;" in client.get("/c/films/")["Content-Security-Policy"]
    )
