"""Videos in the admin: uploads, every verb, who may what, texts that stay texts, and pages that ask few questions."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.video_site import accept, channel, clip, current, files_in, two_qualities
from videos import intervening
from videos.models import Channel, QualityStatus, Subtitle, Transcode, TranscodeStatus, Video, VideoStatus
from videos.verbs import VERBS, situation_of

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"
LIST = "/admin/videos/video/"
CUES = b"WEBVTT\n\n00:01.000 --> 00:02.000\n<script>x</script>Hi\n"

Act = Callable[..., str]


@pytest.fixture
def video(videos_root: Path) -> Video:
    made = accept(clip(50), slug="film", title=EVIL, owner="ann")
    run_due_jobs()
    made.refresh_from_db()
    return made


@pytest.fixture
def waiting(videos_root: Path) -> Video:
    """One whose jobs have not run."""
    return accept(clip(50), slug="waiting", title="Waiting")


@pytest.fixture
def failed(videos_root: Path) -> Video:
    made = accept(clip(50), slug="failed", title="Failed")
    intervening.cancel(made)
    made.refresh_from_db()
    assert made.status == VideoStatus.FAILED
    return made


@pytest.fixture
def act(admin_client: Client) -> Act:
    """`act(video, "retry")` presses a button of the page as it is now; what the next page says."""

    def act(video: Video, verb: str, *, client: Client = admin_client, **more: Any) -> str:
        seen = situation_of(Video.objects.get(pk=video.pk)).seen
        return client.post(
            f"{LIST}{video.pk}/act/", {"verb": verb, "seen": seen, **more}, follow=True
        ).content.decode()

    return act


def send(client: Client, path: Path, **query: Any) -> Any:
    query = {"name": path.name, "channel": channel().pk, **query}
    return client.post(
        f"{LIST}upload/", path.read_bytes(), content_type="application/octet-stream", query_params=query
    )


def page_of(client: Client, video: Video) -> str:
    return client.get(f"{LIST}{video.pk}/change/").content.decode()


# -- uploading ---------------------------------------------------------------------------------------------------------


def test_an_upload_becomes_a_video_of_its_uploader(videos_root: Path, admin_client: Client) -> None:
    channel()
    assert "Drop videos here" in admin_client.get(f"{LIST}add/").content.decode()
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
    assert (refused.status_code, refused.json()["detail"]) == (422, "The file is text, not a video.")
    for query in ({"channel": ""}, {"channel": "99999"}, {"channel": "x"}, {"channel": "9" * 30}):
        assert send(admin_client, clip(50), **query).json()["detail"] == "Choose a channel for the video."
    assert send(admin_client, clip(50), visibility="secret").status_code == 422
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_MAX_BYTES": 100}
    large = send(admin_client, clip(50))
    assert (large.status_code, "larger than 100 bytes" in large.json()["detail"]) == (413, True)
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
    assert (answer.status_code, "interrupted" in answer.json()["detail"]) == (422, True)
    assert not Video.objects.exists()
    assert files_in(videos_root) == {}


def test_without_a_channel_the_page_says_what_to_do_first(admin_client: Client) -> None:
    assert "Make the first channel" in admin_client.get(f"{LIST}add/").content.decode()


# -- verbs -------------------------------------------------------------------------------------------------------------


def test_every_verb_does_what_it_says_and_is_in_the_log(video: Video, act: Act, admin_client: Client) -> None:
    assert "put in line to be transcoded anew (360p)" in act(video, "retranscode", quality="360p")
    assert Transcode.objects.get(number=2).requested_qualities == ["360p"]
    assert "was cancelled" in act(video, "cancel")
    assert "was retried" in act(video, "retry")
    run_due_jobs()
    assert current(video).number == 2
    assert "moved to the bin" in act(video, "delete")
    assert EVIL not in admin_client.get(LIST).content.decode()
    assert "was restored" in act(video, "restore")
    act(video, "delete")
    assert "was purged" in act(video, "purge")
    assert not Video.objects.exists()
    said = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(said) == [
        "put in line to be transcoded anew (360p)",
        "cancelled",
        "retried",
        "moved to the bin",
        "restored",
        "moved to the bin",
        "purged, with all its files",
    ]


def test_one_failed_quality_is_retried(videos_root: Path, act: Act, admin_client: Client) -> None:
    video = accept(two_qualities(50), slug="film")
    run_due_jobs()
    Transcode.objects.get().qualities.filter(quality="480p").update(
        status=QualityStatus.FAILED, completed_at=None
    )
    assert "Retry 480p" in page_of(admin_client, video)
    assert (
        "nothing was done" in act(video, "retry_quality", quality="360p").lower()
        or Transcode.objects.count() == 1
    )
    assert "was retried (480p)" in act(video, "retry_quality", quality="480p")
    assert Transcode.objects.filter(status=TranscodeStatus.PENDING).get().number == 2


def test_a_second_click_does_nothing(video: Video, admin_client: Client) -> None:
    order = {"verb": "retranscode", "seen": situation_of(video).seen}
    first, second = (
        admin_client.post(f"{LIST}{video.pk}/act/", order, follow=True).content.decode() for _ in range(2)
    )
    assert "transcoded anew" in first
    assert "Nothing was done" in second
    assert Transcode.objects.count() == 2
    assert LogEntry.objects.count() == 1


def test_only_what_is_possible_has_a_button(
    video: Video, waiting: Video, failed: Video, admin_client: Client
) -> None:
    offered = {
        video: {"retranscode", "delete"},
        waiting: {"cancel", "delete"},
        failed: {"retry", "retranscode", "delete"},
    }
    for which, verbs in offered.items():
        assert {verb.name for verb in VERBS if verb.is_possible(situation_of(which))} == verbs
        state = admin_client.get(f"{LIST}{which.pk}/live/", headers={"Accept": "application/json"}).json()
        assert {v.name for v in VERBS if state[f"video.{which.pk}.can_{v.name}"]} == verbs


def test_what_is_not_possible_is_refused(video: Video, act: Act, admin_client: Client) -> None:
    for verb in ("retry", "retry_quality", "cancel", "restore", "purge"):
        assert "Nothing was done" in act(video, verb)
    assert admin_client.post(f"{LIST}{video.pk}/act/", {"verb": "explode"}).status_code == 400
    assert "There is no quality" in act(video, "retranscode", quality="9p")
    assert admin_client.get(f"{LIST}{video.pk}/act/").status_code == 405
    gone = admin_client.post(f"{LIST}01ARZ3NDEKTSV4RRFFQ69G5FAV/act/", {"verb": "retry"}, follow=True)
    assert "no such video" in gone.content.decode()
    assert not LogEntry.objects.exists()
    assert Transcode.objects.count() == 1


def test_actions_on_a_selection(video: Video, failed: Video, waiting: Video, admin_client: Client) -> None:
    def on(action: str, *videos: Video, query: str = "", **more: Any) -> str:
        order = {"action": action, "_selected_action": [v.pk for v in videos], **more}
        return admin_client.post(LIST + query, order, follow=True).content.decode()

    said = on("retry", video, failed)
    assert "1 video was retried." in said
    assert "1 video is in no state to be retried" in said
    assert "3 videos were moved to the bin." in on("delete", video, failed, waiting)
    assert "are you sure" in on("purge", video, query="?deleted=yes")
    assert Video.objects.count() == 3
    assert "2 videos were restored." in on("restore", video, waiting, query="?deleted=yes")
    assert "1 video was purged" in on("purge", failed, query="?deleted=yes", confirmed="yes")
    assert not Video.objects.filter(pk=failed.pk).exists()
    assert LogEntry.objects.filter(change_message="purged, with all its files").get().object_repr == "Failed"


# -- subtitles ---------------------------------------------------------------------------------------------------------


def test_subtitles_are_uploaded_made_safe_and_removed(video: Video, admin_client: Client) -> None:
    address = f"{LIST}{video.pk}/subtitles/"

    def post(**form: Any) -> str:
        return admin_client.post(address, form, follow=True).content.decode()

    assert "Choose a file" in post(language="en")
    assert "is no language" in post(language="../x", file=SimpleUploadedFile("a.vtt", CUES))
    assert "holds no subtitles" in post(language="en", file=SimpleUploadedFile("a.vtt", b"nothing"))
    assert "bytes at most" in post(language="en", file=SimpleUploadedFile("a.vtt", b"x" * 5_000_001))
    assert not Subtitle.objects.exists()
    assert "in en are stored" in post(language="en", label=EVIL, file=SimpleUploadedFile("a.vtt", CUES))
    assert "<script" not in video.subtitles.get().webvtt
    assert EVIL not in page_of(admin_client, video)
    assert "are removed" in post(remove="en")
    assert "Nothing was done" in post(remove="en")
    assert not Subtitle.objects.exists()
    assert LogEntry.objects.count() == 2


# -- who may what ------------------------------------------------------------------------------------------------------


def client_of(*permissions: str, staff: bool = True) -> Client:
    user = User.objects.create_user(f"clerk{User.objects.count()}", is_staff=staff)
    user.user_permissions.set(
        Permission.objects.filter(codename__in=permissions, content_type__app_label="videos")
    )
    client = Client()
    client.force_login(user)
    return client


def test_the_permission_matrix(video: Video, settings: Settings) -> None:
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


def test_title_and_visibility_are_edited_and_nothing_else_is(video: Video, admin_client: Client) -> None:
    form = {
        "title": "New",
        "channel": video.channel_id,
        "visibility": "private",
        "owner": "bob",
        "status": "failed",
    }
    admin_client.post(f"{LIST}{video.pk}/change/", form)
    video.refresh_from_db()
    assert (video.title, video.visibility, video.status) == ("New", "private", VideoStatus.READY)
    assert admin_client.post(f"{LIST}{video.pk}/delete/", {"post": "yes"}).status_code == 403


@pytest.mark.urls("tests.own_video_admin")
def test_on_somebodys_own_admin_site_every_page_works_and_every_link_stays_on_it(
    video: Video, failed: Video, admin_client: Client
) -> None:
    Subtitle.objects.create(video=video, language="en", webvtt="WEBVTT", source="uploaded")
    intervening.delete(failed)
    at = "/office/videos/video/"
    for address in (
        at,
        f"{at}add/",
        f"{at}{video.pk}/change/",
        f"{at}{video.pk}/live/",
        f"{at}live/?video={video.pk}",
        f"{at}{failed.pk}/purge/",
        "/office/videos/channel/",
    ):
        page = admin_client.get(address, headers={"Accept": "application/json"})
        assert page.status_code == 200, address
        assert not re.search(r"(href|action|source|url|upload)=\"/admin/", page.content.decode()), address
    order = {"verb": "retranscode", "seen": situation_of(video).seen}
    assert admin_client.post(f"{at}{video.pk}/act/", order)["Location"] == f"{at}{video.pk}/change/"


# -- texts, channels, speed --------------------------------------------------------------------------------------------


def test_html_in_titles_and_errors_stays_text(video: Video, failed: Video, admin_client: Client) -> None:
    Video.objects.filter(pk=failed.pk).update(error_message=EVIL, owner=EVIL, source_name=EVIL, warning=EVIL)
    Transcode.objects.filter(video=failed).update(error=EVIL)
    Channel.objects.update(name=EVIL)
    for address in (
        LIST,
        f"{LIST}add/",
        f"{LIST}{video.pk}/change/",
        f"{LIST}{failed.pk}/change/",
        "/admin/videos/channel/",
        "/v/film/",
        "/v/failed/",
        "/c/films/",
    ):
        page = admin_client.get(address)
        assert page.status_code == 200, address
        assert EVIL not in page.content.decode(), address
        assert "&lt;script&gt;" in page.content.decode(), address


def test_why_a_video_failed_is_told_to_those_who_run_the_site_alone(
    failed: Video, admin_client: Client
) -> None:
    assert "cancelled" in admin_client.get("/v/failed/status").json()["error"]
    assert Client().get("/v/failed/status").json()["error"] == ""
    assert "cancelled" not in Client().get("/v/failed/").content.decode()
    stream = Client().get("/v/failed/events", headers={"Accept": "application/json"}).content.decode()
    assert "could not be prepared" in stream
    assert "cancelled" not in stream


def test_a_channel_counts_what_is_kept_and_links_to_it(
    video: Video, failed: Video, waiting: Video, admin_client: Client
) -> None:
    intervening.delete(waiting)
    page = admin_client.get("/admin/videos/channel/").content.decode()
    address = f"/admin/videos/video/?channel={video.channel_id}&amp;status="
    assert f'href="{address}ready" data-status="ready">1 ready' in page
    assert f'href="{address}failed" data-status="failed">1 failed' in page
    assert "pending" not in page
    filtered = admin_client.get(f"{LIST}?channel={video.channel_id}&status=failed").content.decode()
    assert (f"{failed.pk}/change" in filtered, f"{video.pk}/change" in filtered) == (True, False)
    for query in (
        "?channel=x",
        "?channel=99999999999999999999",
        "?status=none",
        "?q=film",
        "?deleted=any",
        "?q=%00",
    ):
        assert admin_client.get(LIST + query).status_code in (200, 302, 400), query


def test_many_videos_cost_few_queries_and_no_scan_of_the_jobs(video: Video, admin_client: Client) -> None:
    template = Video.objects.get()
    rows = []
    for number in range(300):
        row = Video.objects.get(pk=template.pk)
        row.pk, row.slug, row.handle = f"01ARZ3NDEKTSV4RRFFQ6{number:06d}", f"film-{number}", f"film-{number}"
        rows.append(row)
    Video.objects.bulk_create(rows)
    Transcode.objects.bulk_create(
        Transcode(video_id=row.pk, number=2, status="processing", workflow_id=f"01ARZ3NDEKTSV4RRFFQ7{n:06d}")
        for n, row in enumerate(rows)
    )
    ids = "&".join(f"video={row.pk}" for row in rows[:50])
    for address in (
        LIST,
        f"{LIST}?q=film&status=ready&channel={video.channel_id}",
        f"{LIST}{video.pk}/change/",
        f"{LIST}{rows[0].pk}/change/",
        f"{LIST}add/",
        "/admin/videos/channel/",
        f"{LIST}live/?{ids}",
        f"{LIST}{rows[0].pk}/live/",
        "/v/film/",
        "/c/films/",
        "/c/films/?page=3",
    ):
        with CaptureQueriesContext(connection) as queries:
            assert admin_client.get(address, headers={"Accept": "application/json"}).status_code == 200
        assert len(queries) <= 15, f"{address}: {len(queries)} queries"
        for query in queries:
            if "jobs_job" in query["sql"] and query["sql"].startswith("SELECT"):
                assert not scans(query["sql"], "jobs_job"), query["sql"]
    Video.objects.exclude(pk=video.pk).delete()  # they have no files


def scans(sql: str, table: str) -> bool:
    """Whether the database has no index for it; PostgreSQL is asked what it would do with a large table."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("EXPLAIN " + sql.replace("%", "%%"))
            plan = [row[0] for row in cursor.fetchall()]
            cursor.execute("SET LOCAL enable_seqscan = on")
            return any(f"Seq Scan on {table}" in line for line in plan)
        cursor.execute("EXPLAIN QUERY PLAN " + sql.replace("%", "%%"))
        return any(row[3].startswith(f"SCAN {table}") and "USING" not in row[3] for row in cursor.fetchall())


def test_a_scan_would_be_noticed(db: None) -> None:
    assert scans("SELECT id FROM jobs_job WHERE last_error = 'x'", "jobs_job")


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


def test_jobs_are_left_alone_by_looking(video: Video, admin_client: Client) -> None:
    before = list(Job.objects.order_by("pk").values())
    for address in (LIST, f"{LIST}{video.pk}/change/", f"{LIST}{video.pk}/purge/", "/v/film/"):
        assert admin_client.get(address, {"verb": "purge", "action": "purge"}).status_code in (200, 302)
    assert list(Job.objects.order_by("pk").values()) == before
