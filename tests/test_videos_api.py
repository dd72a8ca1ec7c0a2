"""The API of videos: what the admin can do, by the same people; and whatever else strangers send."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs.exceptions import QueueFull
from jobs.testing import run_due_jobs
from tests.video_site import accept, channel, clip, current, files_in, two_qualities
from videos import intervening, pipeline
from videos.models import Channel, QualityStatus, Subtitle, Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"
VIDEOS = "/api/videos"
NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
ROW = dict.fromkeys(VideoStatus.values, 0)


@pytest.fixture(autouse=True)
def _small_disk(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}


@pytest.fixture
def video() -> Video:
    made = accept(clip(50), slug="film", title=EVIL, owner="ann")
    run_due_jobs()
    made.refresh_from_db()
    return made


@pytest.fixture
def failed() -> Video:
    made = accept(clip(50), slug="failed", title="Failed")
    intervening.cancel(made)
    made.refresh_from_db()
    return made


def bare(slug: str, **values: Any) -> Video:
    """A video that waits, without a file."""
    values = {"channel": channel(), "title": slug, "handle": slug, "source_bytes": 1, **values}
    looks = {"duration": 2, "width": 640, "height": 480, "fps": 25, "video_codec": "h264"}
    made: Video = Video.objects.create(
        slug=slug, source_name="a.mp4", source_sha256="0" * 64, **looks, **values
    )
    pipeline.start(Transcode.objects.create(video=made, number=1))
    return made


def send(client: Client, method: str, address: str, body: Any = None) -> Any:
    text = body if isinstance(body, str | bytes) or body is None else json.dumps(body)
    if text is None:
        return client.generic(method, address)
    return client.generic(method, address, text, content_type="application/json")


def upload(client: Client, path: Path | None = None, **form: Any) -> Any:
    path = path or clip(50)
    file = form.pop("file", None) or SimpleUploadedFile(path.name, path.read_bytes())
    form = {"channel": channel().slug, "file": file, **form}
    return client.post(VIDEOS, {name: value for name, value in form.items() if value != ""})


def refused(answer: Any, status: int, code: str, *words: str) -> bool:
    """Whether it was refused in the form that all refusals have."""
    assert answer.status_code == status, (answer.status_code, answer.content)
    problem = answer.json()
    assert set(problem) == {"error", "detail"}
    assert problem["error"] == code, problem
    assert all(word in problem["detail"] for word in words), problem
    return True


# -- looking -----------------------------------------------------------------------------------------------------------


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
    for address in (f"{VIDEOS}/", f"{VIDEOS}/{video.pk}/explode", f"{VIDEOS}/{video.pk}/", "/api/channels"):
        assert refused(send(admin_client, "GET", address), 404, "not_found")
    for method, address in (("PUT", VIDEOS), ("DELETE", VIDEOS), ("GET", f"{VIDEOS}/{video.pk}/retry")):
        answer = send(admin_client, method, address)
        assert refused(answer, 405, "method_not_allowed")
        assert answer["Allow"]


# -- uploading ---------------------------------------------------------------------------------------------------------


def test_a_file_in_a_form_becomes_a_video(admin_client: Client, videos_root: Path) -> None:
    answer = upload(admin_client, title=EVIL, visibility="private", slug="mine")
    assert answer.status_code == 201
    shown = answer.json()
    assert (shown["created"], shown["video"]["title"], shown["video"]["slug"]) == (True, EVIL, "mine")
    video = Video.objects.get()
    assert (video.owner, video.visibility) == ("admin", "private")
    assert list((videos_root / "incoming").iterdir()) == []
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.object_id) == (ADDITION, video.pk)
    run_due_jobs()
    assert current(video).number == 1


def test_the_same_twice_is_one(admin_client: Client) -> None:
    assert [upload(admin_client).status_code for _ in range(2)] == [201, 200]
    assert upload(admin_client, title="Another", same_content_once="true").status_code == 200
    assert upload(admin_client, title="Another").status_code == 201
    assert LogEntry.objects.count() == 2


def test_a_file_is_written_once_and_never_read_whole(
    admin_client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to the folder for temporary files, which may be small, or be memory."""
    settings.FILE_UPLOAD_TEMP_DIR = "/nowhere"
    settings.FILE_UPLOAD_MAX_MEMORY_SIZE = 0
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    assert upload(admin_client).status_code == 201


def letter(name: str = "letter.mp4") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, b"Dear all, " * 100)


@pytest.mark.parametrize(
    ("form", "status", "code", "word"),
    [
        ({"file": letter}, 422, "refused", "text, not a video"),
        ({"file": lambda: SimpleUploadedFile("empty.mp4", b"")}, 422, "refused", "empty"),
        ({"file": lambda: "just text"}, 422, "invalid", "file"),
        ({"channel": ""}, 422, "invalid", "channel"),
        ({"channel": "nowhere"}, 422, "invalid", "channel"),
        ({"channel": "99999"}, 422, "invalid", "channel"),
        ({"channel": "9" * 100}, 422, "invalid", "channel"),
        ({"channel": "a\0b"}, 422, "invalid", "channel"),
        ({"visibility": "secret"}, 422, "invalid", "visibility"),
        ({"slug": "../x"}, 422, "refused", "address"),
        ({"slug": "a" * 151}, 422, "invalid", "slug"),
        ({"title": "t" * 301}, 422, "invalid", "title"),
        ({"title": "a\0b"}, 422, "invalid", "title"),
        ({"same_content_once": "perhaps"}, 422, "invalid", "same_content_once"),
        ({"status": "ready"}, 422, "invalid", "status"),
        ({"file2": letter}, 422, "invalid", "one file"),
    ],
)
def test_uploads_that_are_refused_leave_nothing(
    admin_client: Client, videos_root: Path, form: dict[str, Any], status: int, code: str, word: str
) -> None:
    given = {name: value() if callable(value) else value for name, value in form.items()}
    assert refused(upload(admin_client, **given), status, code, word)
    assert not Video.objects.exists()
    assert not LogEntry.objects.exists()
    assert files_in(videos_root) == {}
    assert not (videos_root / "incoming").exists() or list((videos_root / "incoming").iterdir()) == []


def test_bodies_that_are_no_form(admin_client: Client, videos_root: Path) -> None:
    kinds = ("application/json", "text/plain", "multipart/form-data", "multipart/form-data; boundary=é", "x")
    for kind in (*kinds, "multipart/form-data; boundary=" + "b" * 300, "application/x-www-form-urlencoded"):
        answer = admin_client.generic("POST", VIDEOS, b'--b\r\n{"channel": NaN', content_type=kind)
        assert answer.status_code in (400, 422), kind
        assert set(answer.json()) == {"error", "detail"}
    boundary = "multipart/form-data; boundary=b"
    cut = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\nabc'
    assert admin_client.generic("POST", VIDEOS, cut, content_type=boundary).status_code in (400, 422)
    many = b"".join(b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n' for _ in range(2000))
    assert refused(
        admin_client.generic("POST", VIDEOS, many + b"--b--", content_type=boundary), 400, "invalid"
    )
    assert files_in(videos_root) == {}


def test_a_file_that_is_too_large_or_has_no_room(
    admin_client: Client, settings: Settings, videos_root: Path
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_MAX_BYTES": 100}
    assert refused(upload(admin_client), 413, "too_large", "file", "100 bytes")
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_MAX_BYTES": 10**9, "MIN_FREE_BYTES": 10**18}
    assert refused(upload(admin_client), 507, "no_room")
    assert files_in(videos_root) == {}
    assert not Video.objects.exists()


def test_a_full_queue_is_told(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, videos_root: Path
) -> None:
    def full(*arguments: Any, **named: Any) -> Any:
        raise QueueFull(9, 9, retry_after=17)

    monkeypatch.setattr("videos.pipeline.start", full)
    answer = upload(admin_client)
    assert refused(answer, 429, "busy")
    assert answer["Retry-After"] == "17"
    assert files_in(videos_root) == {}


@pytest.mark.parametrize(
    "name",
    [
        "../../x.mp4",
        "/etc/passwd",
        "..",
        ".",
        "a\\b.mp4",
        "a\0b.mp4",
        "x" * 900 + ".mp4",
        f"{EVIL}.mp4",
        "%00.mp4",
    ],
)
def test_names_of_files_lead_nowhere(admin_client: Client, videos_root: Path, name: str) -> None:
    channel()
    parts = (
        b'name="channel"\r\n\r\nfilms',
        b'name="file"; filename="%s"\r\n\r\n' % name.encode() + clip(50).read_bytes(),
    )
    body = b"".join(b"--b\r\nContent-Disposition: form-data; %s\r\n" % part for part in parts) + b"--b--\r\n"
    answer = admin_client.generic("POST", VIDEOS, body, content_type="multipart/form-data; boundary=b")
    if answer.status_code != 201:  # Django takes a file without a usable name for none
        assert refused(answer, 422, "invalid", "file")
        assert files_in(videos_root) == {}
        return
    (source,) = (path for path in videos_root.rglob("*") if path.is_file())
    assert source.parent == videos_root / Video.objects.get().pk / "source"


# -- changing ----------------------------------------------------------------------------------------------------------


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
    assert LogEntry.objects.get().change_message == "changed channel, owner, title, visibility"
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


# -- verbs -------------------------------------------------------------------------------------------------------------


def test_every_verb_does_what_it_says_and_is_in_the_log(video: Video, admin_client: Client) -> None:
    at = f"{VIDEOS}/{video.pk}"
    shown = send(admin_client, "POST", f"{at}/retranscode", {"qualities": ["360p"], "subtitles": True})
    assert (shown.status_code, shown.json()["status"]) == (200, "ready")
    assert Transcode.objects.get(number=2).requested_qualities == ["360p"]
    assert refused(send(admin_client, "POST", f"{at}/retranscode"), 409, "not_possible")
    intervening.cancel(video)
    assert send(admin_client, "POST", f"{at}/retry").status_code == 200
    run_due_jobs()
    assert current(video).number == 2
    assert refused(send(admin_client, "POST", f"{at}/retry"), 409, "not_possible")
    assert refused(send(admin_client, "POST", f"{at}/restore"), 409, "not_possible")
    deleted = send(admin_client, "DELETE", at)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert refused(send(admin_client, "DELETE", at), 409, "not_possible")
    assert send(admin_client, "GET", at).json()["possible"] == ["restore", "purge"]
    assert send(admin_client, "POST", f"{at}/restore").json()["deleted_at"] is None
    said = LogEntry.objects.order_by("pk").values_list("change_message", "object_repr")
    assert [message for message, _ in said] == [
        "put in line to be transcoded anew (360p)",
        "retried",
        "moved to the bin",
        "restored",
    ]
    assert {name for _, name in said} == {EVIL}


def test_one_failed_quality_is_retried(admin_client: Client) -> None:
    video = accept(two_qualities(50), slug="film")
    run_due_jobs()
    Transcode.objects.get().qualities.filter(quality="480p").update(
        status=QualityStatus.FAILED, completed_at=None, error_message="too hard"
    )
    Transcode.objects.get().renditions.filter(name="480p").delete()
    at = f"{VIDEOS}/{video.pk}/retry"
    assert refused(send(admin_client, "POST", at, {"quality": "360p"}), 409, "not_possible", "360p")
    assert send(admin_client, "POST", at, {"quality": "480p"}).status_code == 200
    assert Transcode.objects.filter(status=TranscodeStatus.PENDING).get().number == 2


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("retranscode", {"qualities": ["9p"]}, "qualities"),
        ("retranscode", {"qualities": "360p"}, "qualities"),
        ("retranscode", {"qualities": ["360p"] * 21}, "qualities"),
        ("retranscode", {"qualities": [None]}, "qualities"),
        ("retranscode", {"qualities": ["x" * 21]}, "qualities"),
        ("retranscode", {"subtitles": "perhaps"}, "subtitles"),
        ("retranscode", {"quality": "360p"}, "quality"),
        ("retranscode", '{"subtitles": NaN}', "subtitles"),
        ("retranscode", [], ""),
        ("retry", {"quality": "9p"}, "9p"),
        ("retry", {"quality": 360}, "quality"),
        ("retry", {"qualities": ["360p"]}, "qualities"),
    ],
)
def test_orders_that_make_no_sense(
    failed: Video, admin_client: Client, verb: str, body: Any, field: str
) -> None:
    assert refused(send(admin_client, "POST", f"{VIDEOS}/{failed.pk}/{verb}", body), 422, "invalid", field)
    assert Transcode.objects.count() == 1
    assert not LogEntry.objects.exists()


def test_a_verb_that_the_pipeline_refuses_tells_why(
    failed: Video, admin_client: Client, videos_root: Path
) -> None:
    for path in (videos_root / failed.pk / "source").iterdir():
        path.unlink()
    assert refused(
        send(admin_client, "POST", f"{VIDEOS}/{failed.pk}/retranscode"), 409, "not_possible", "source"
    )
    assert not LogEntry.objects.exists()


# -- who may what ------------------------------------------------------------------------------------------------------


def client_of(*permissions: str, staff: bool = True, csrf: bool = False) -> Client:
    user = User.objects.create_user(f"clerk{User.objects.count()}", is_staff=staff)
    user.user_permissions.set(
        Permission.objects.filter(codename__in=permissions, content_type__app_label="videos")
    )
    client = Client(enforce_csrf_checks=csrf)
    client.force_login(user)
    return client


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


# -- texts, health, document -------------------------------------------------------------------------------------------


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


def test_health_has_reasons_for_all_and_numbers_for_staff(
    failed: Video, admin_client: Client, settings: Settings
) -> None:
    assert Client().get("/api/health").json() == {
        "status": "ok",
        "reasons": [],
        "storage": None,
        "processing": None,
    }
    told = client_of("view_video").get("/api/health").json()
    assert told["processing"]["videos"] == {**ROW, "failed": 1}
    assert told["storage"]["total_bytes"] >= told["storage"]["free_bytes"] > 0
    assert client_of("add_video").get("/api/health").json()["processing"] is None
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 10**18}
    full = Client().get("/api/health")
    assert (full.status_code, full.json()["reasons"]) == (503, ["There is too little room left for videos."])


def test_health_without_a_database_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*arguments: Any, **named: Any) -> Any:
        raise OperationalError("the server closed the connection: password=secret")

    monkeypatch.setattr("videos.api.health.Transcode.objects.active", gone)
    answer = Client().get("/api/health")
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["The database does not answer."])


def test_a_database_that_is_gone_is_told_without_its_secrets(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*arguments: Any, **named: Any) -> Any:
        raise OperationalError("password=secret")

    monkeypatch.setattr("videos.api.videos.page_of", gone)
    answer = admin_client.get(VIDEOS)
    assert refused(answer, 503, "unavailable")
    assert "secret" not in answer.content.decode()


def test_a_fault_of_ours_is_told_in_the_same_form(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **named: Any) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("videos.api.videos.page_of", broken)
    assert refused(admin_client.get(VIDEOS), 500, "internal")


def test_the_document_lists_what_there_is(client: Client) -> None:
    document = client.get("/api/videos.openapi.json").json()
    operations = {
        f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
    }
    assert operations == {
        "GET /api/videos",
        "POST /api/videos",
        "GET /api/videos/{video_id}",
        "PATCH /api/videos/{video_id}",
        "DELETE /api/videos/{video_id}",
        "POST /api/videos/{video_id}/retry",
        "POST /api/videos/{video_id}/retranscode",
        "POST /api/videos/{video_id}/restore",
        "GET /api/channels/{channel_id}",
        "GET /api/channels/{channel_id}/videos",
        "GET /api/health",
    }
    change = document["components"]["schemas"]["VideoChange"]
    assert set(change["properties"]) == {"title", "visibility", "channel", "owner"}
    assert "required" not in change
    assert change["additionalProperties"] is False
    assert not any("default" in field for field in change["properties"].values())
