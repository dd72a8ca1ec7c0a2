"""The API of videos: a file in a form, and whatever else strangers send as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from jobs.exceptions import QueueFull
from jobs.testing import run_due_jobs
from tests.support.pages.video_admin import EVIL
from tests.support.pages.videos_api_client import VIDEOS, refused, upload
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.videos.video_site import channel, clip, current, files_in
from videos.models import Video

pytestmark = pytest.mark.django_db


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
    assert refused(upload(admin_client), 413, "too_large", "file", "100")
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
