"""Resumable uploads that are refused: wrong versions, lengths, metadata, names, checksums and places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.support.servers.tus import DAY, UPLOADS, Tus, encoded, film_for, nothing_is_left
from tests.support.servers.tus import film as film
from tests.support.servers.tus import tus as tus
from tests.support.videos.video_site import channel
from videos.models import ResumableUpload, Video

pytestmark = pytest.mark.django_db


def test_what_is_no_video_is_refused_with_the_reason_and_leaves_nothing(tus: Tus, videos_root: Path) -> None:
    letter = b"Dear all, " * 100
    place = tus.begun(len(letter))
    assert tus.patch(place, 0, letter[:-1]).status_code == 204
    refused = tus.patch(place, len(letter) - 1, letter[-1:])
    assert (refused.status_code, refused.json()["error"]) == (422, "refused")
    assert refused.json()["detail"]
    assert nothing_is_left(videos_root)
    assert tus.head(place).status_code == 404
    run_due_jobs(ahead=DAY)
    assert nothing_is_left(videos_root)


@pytest.mark.parametrize("version", ["", "0.2.2", "1.0", "1.0.0, 1.0.0", "2"])
def test_another_version_is_refused(tus: Tus, version: str) -> None:
    place = tus.begun(10)
    for answer in (
        tus.begin(10, Tus_Resumable=version),
        tus.patch(place, 0, b"x", Tus_Resumable=version),
        tus.head(place, Tus_Resumable=version),
        tus.delete(place, Tus_Resumable=version),
    ):
        assert (answer.status_code, answer["Tus-Version"]) == (412, "1.0.0")
    assert tus.offset(place) == 0


@pytest.mark.parametrize(
    "length",
    ["", "-1", "+1", "1.5", "NaN", "1e3", "0x10", " ", "ten", "٣", "9" * 19, "9" * 5000, "1,2", "1\0"],
)
def test_lengths_that_are_none(tus: Tus, length: str, videos_root: Path) -> None:
    answer = tus.begin(length)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid")
    assert "Upload-Length" in answer.json()["detail"]
    place = tus.begun(10)
    wrong = tus.patch(place, length, b"x")
    assert (wrong.status_code, "Upload-Offset" in wrong.json()["detail"]) == (400, True)
    assert tus.offset(place) == 0


def test_lengths_that_may_not_be(tus: Tus, settings: Settings, videos_root: Path) -> None:
    empty = tus.begin(0)
    assert (empty.status_code, empty.json()["error"]) == (422, "refused")
    assert tus.begin(10, Upload_Defer_Length="1").status_code == 400
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_MAX_BYTES": 100}
    large = tus.begin(101)
    assert (large.status_code, large.json()["error"]) == (413, "too_large")
    assert tus.begin(100).status_code == 201
    assert ResumableUpload.objects.count() == 1


@pytest.mark.parametrize(
    ("metadata", "status", "named"),
    [
        ("filename", 422, "channel"),
        ("", 422, "channel"),
        ("filename Zm9v,filename Zm9v", 400, "filename"),
        ("filename !!!", 400, "filename"),
        ("filename Zm9", 400, "filename"),
        ("filename gICA", 400, "filename"),
        ("filename Zm9v Zm9v", 400, "filename"),
        (",", 400, "Upload-Metadata"),
        (" Zm9v", 422, "channel"),
        ("näme Zm9v", 400, "Upload-Metadata"),
        ("a\tb Zm9v", 400, "Upload-Metadata"),
        ("k" * 101 + " Zm9v", 400, "Upload-Metadata"),
        ("a " + "QUFB" * 3000, 400, "Upload-Metadata"),
        (lambda: encoded(channel="0"), 422, "channel"),
        (lambda: encoded(channel="9" * 18), 422, "channel"),
        (lambda: encoded(channel="9" * 40), 422, "channel"),
        (lambda: encoded(channel="٣"), 422, "channel"),
        (lambda: encoded(channel="fi\0lms"), 422, "channel"),
        (lambda: encoded(channel="-1"), 422, "channel"),
        (lambda: film_for(visibility="secret"), 422, "visibility"),
        (lambda: film_for(slug="../../etc"), 422, "'../../etc'"),
        (lambda: film_for(slug=""), 422, "''"),
        (lambda: film_for(slug="a" * 151), 422, "a" * 151),
    ],
)
def test_metadata_that_make_no_sense(
    tus: Tus, videos_root: Path, metadata: str | Callable[[], str], status: int, named: str
) -> None:
    answer = tus.begin(10, metadata if isinstance(metadata, str) else metadata())
    assert answer.status_code == status
    assert named in answer.json()["detail"]
    assert nothing_is_left(videos_root)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "",
        "C:\\x\\y.mp4",
        "a\0b.mp4",
        ".writer",
        ".unverified",
        "x" * 900,
        "\u202efilm.4pm",
        "<b>.mp4",
    ],
)
def test_names_lead_nowhere(tus: Tus, film: bytes, videos_root: Path, name: str) -> None:
    before = set(videos_root.parent.rglob("*"))
    place = tus.begun(
        len(film), encoded(filename=name, channel=str(channel().pk), title="<script>x</script>\0")
    )
    assert tus.patch(place, 0, film[:9]).status_code == 204
    assert {path.parent.parent for path in videos_root.rglob("*") if path.is_file()} == {
        videos_root / "incoming"
    }
    assert tus.patch(place, 9, film[9:]).status_code == 204
    video = Video.objects.get()
    (source,) = (path for path in videos_root.rglob("*") if path.is_file())
    assert source.parent == videos_root / video.pk / "source"
    assert video.title.startswith("<script>x</script>")
    assert "<script>x" not in tus.client.get(f"/v/{video.slug}/").content.decode()
    assert {
        path for path in videos_root.parent.rglob("*") if videos_root not in (path, *path.parents)
    } <= before


@pytest.mark.parametrize(
    "checksum",
    ["", "sha1", "sha1 ", "sha1 !!", "crc32 AAAA", "md5 AAAA", "SHA1 x", "sha1 äö", "sha512 " + "A" * 88],
)
def test_checksums_that_are_none(tus: Tus, checksum: str) -> None:
    place = tus.begun(10)
    answer = tus.patch(place, 0, b"12345", Upload_Checksum=checksum)
    assert answer.status_code in (400, 460)
    assert "Upload-Checksum" in answer.json()["detail"]
    assert tus.offset(place) == 0


def test_wrong_places_and_wrong_types(tus: Tus) -> None:
    place = tus.begun(10)
    for offset in (1, 9, 10, 11, 10**17):
        answer = tus.patch(place, offset, b"x")
        assert (answer.status_code, answer.json()["error"]) == (409, "wrong_offset")
    beyond = tus.patch(place, 0, b"x" * 11)
    assert (beyond.status_code, beyond.json()["error"]) == (413, "too_large")
    for kind in ("application/octet-stream", "multipart/form-data; boundary=x", "application/json", ""):
        assert tus.patch(place, 0, b"x", content_type=kind).status_code == 415
    assert tus.offset(place) == 0
    assert tus.client.put(place, b"x").status_code == 405
    assert tus.client.get(UPLOADS).status_code == 405
    for nowhere in (
        "x",
        "..",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "%00",
        "%2e%2e%2fincoming",
        place[len(UPLOADS) :].lower(),
    ):
        assert tus.head(f"{UPLOADS}{nowhere}").status_code == 404
        assert tus.patch(f"{UPLOADS}{nowhere}", 0, b"x").status_code == 404
        assert tus.delete(f"{UPLOADS}{nowhere}").status_code == 404
