"""Resumable uploads (tus 1.0): in pieces, interrupted, wrong in every way, by people who may and who may not."""

from __future__ import annotations

import hashlib
import io
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from jobs import staff_tokens
from jobs.exceptions import QueueFull
from jobs.models import Job
from jobs.reconcile import reconcile
from jobs.testing import assert_enqueued, run_due_jobs
from tests.tus import UPLOADS, Tus, encoded
from tests.video_site import accept, channel, clip, current, files_in
from videos import intake, intervening, storage
from videos.models import ResumableUpload, Video
from videos.reconciling import find_orphans
from videos.refusal import Refusal
from videos.resumable import arriving, uploads
from videos.resumable.arriving import Busy

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1, minutes=1)


@pytest.fixture
def tus(admin_client: Client, videos_root: Path, settings: Settings) -> Tus:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}
    return Tus(admin_client)


@pytest.fixture
def film() -> bytes:
    return clip(50).read_bytes()


def sha(data: bytes, algorithm: str = "sha1") -> str:
    return f"{algorithm} {b64encode(hashlib.new(algorithm, data).digest()).decode()}"


def nothing_is_left(root: Path) -> bool:
    return not Video.objects.exists() and not ResumableUpload.objects.exists() and files_in(root) == {}


def pen_of(place: str) -> Any:
    """The right to write to an upload, as another request has it."""
    return uploads.arriving(ResumableUpload.objects.get(pk=place.removeprefix(UPLOADS))).writing()


# -- as it should be ---------------------------------------------------------------------------------------------------


def test_an_upload_in_pieces_becomes_a_video_of_its_uploader(
    tus: Tus, film: bytes, videos_root: Path
) -> None:
    channel()
    metadata = encoded(filename="a/b\\My_film.mp4", channel="films", visibility="private")
    place = tus.begun(len(film), metadata)
    cuts = [0, 1, 1000, len(film) - 1, len(film)]
    for start, end in pairwise(cuts):
        assert tus.offset(place) == start
        answer = tus.patch(place, start, film[start:end])
        assert (answer.status_code, answer["Upload-Offset"]) == (204, str(end))
        assert answer["Tus-Resumable"] == "1.0.0"
        assert answer["Upload-Expires"].endswith("GMT")
    video = Video.objects.get()
    assert (video.owner, video.visibility, video.source_bytes) == ("admin", "private", len(film))
    assert video.source_sha256 == hashlib.sha256(film).hexdigest()
    assert list((videos_root / "incoming").iterdir()) == []
    assert tus.offset(place) == len(film)
    told = tus.client.get(place).json()
    assert told["video"] == {"id": video.pk, "title": video.title, "created": True}
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.object_id, entry.user.username) == (ADDITION, video.pk, "admin")
    run_due_jobs()
    assert current(video).number == 1


def test_the_server_says_what_it_can(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_MAX_BYTES": 12345}
    answer = Client().options(UPLOADS)
    assert answer.status_code == 204
    assert answer["Tus-Version"] == answer["Tus-Resumable"] == "1.0.0"
    assert answer["Tus-Extension"] == "creation,termination,checksum,expiration"
    assert answer["Tus-Max-Size"] == "12345"
    assert answer["Tus-Checksum-Algorithm"] == "sha1,sha256"


def test_head_gives_back_what_was_said_at_the_beginning_and_is_never_cached(tus: Tus) -> None:
    metadata = encoded(filename="film.mp4", channel=str(channel().pk), ours="x") + ",empty"
    answer = tus.head(tus.begun(7, metadata))
    assert answer["Upload-Metadata"] == metadata
    assert (answer["Upload-Length"], answer["Upload-Offset"]) == ("7", "0")
    assert answer["Cache-Control"] == "no-store"
    assert answer.content == b""


def test_the_same_film_twice_is_one_video(tus: Tus, film: bytes) -> None:
    for created in (True, False):
        place = tus.begun(len(film))
        assert tus.patch(place, 0, film).status_code == 204
        assert tus.client.get(place).json()["video"]["created"] is created
    assert Video.objects.count() == 1
    assert LogEntry.objects.count() == 1


def test_checksums_are_checked(tus: Tus, film: bytes) -> None:
    place = tus.begun(len(film))
    assert tus.patch(place, 0, film[:500], Upload_Checksum=sha(film[:500])).status_code == 204
    wrong = tus.patch(place, 500, film[500:900], Upload_Checksum=sha(b"other"))
    assert (wrong.status_code, wrong.json()["error"]) == (460, "checksum_mismatch")
    assert tus.offset(place) == 500
    assert tus.patch(place, 500, film[500:], Upload_Checksum=sha(film[500:], "sha256")).status_code == 204
    assert Video.objects.get().source_sha256 == hashlib.sha256(film).hexdigest()


def test_post_may_stand_for_another_method_and_get_may_not(tus: Tus, film: bytes) -> None:
    place = tus.begun(len(film))
    headers = {"Tus-Resumable": "1.0.0", "X-HTTP-Method-Override": "DELETE"}
    assert tus.client.get(place, headers=headers).status_code == 200
    assert tus.client.post(place, content_type="text/plain", headers=headers).status_code == 204
    assert tus.head(place).status_code == 404


# -- interrupted -------------------------------------------------------------------------------------------------------


def test_what_arrived_before_the_connection_was_lost_is_kept(tus: Tus, film: bytes) -> None:
    place = tus.begun(len(film))
    cut_off = tus.patch(place, 0, film, wire=io.BytesIO(film[:700]))  # type: ignore[arg-type]
    assert (cut_off.status_code, cut_off.json()["error"]) == (400, "interrupted")
    assert tus.offset(place) == 700
    assert tus.patch(place, 700, film[700:]).status_code == 204
    assert Video.objects.get().source_sha256 == hashlib.sha256(film).hexdigest()


def test_but_not_if_it_was_to_match_a_checksum(tus: Tus, film: bytes) -> None:
    place = tus.begun(len(film))
    tus.patch(place, 0, film[:100])
    tus.patch(place, 100, film[100:], Upload_Checksum=sha(film[100:]), wire=io.BytesIO(film[100:700]))  # type: ignore[arg-type]
    assert tus.offset(place) == 100


def test_bytes_that_were_to_match_a_checksum_do_not_count_after_a_crash(tus: Tus, film: bytes) -> None:
    place = tus.begun(len(film))
    tus.patch(place, 0, film[:100])
    with pen_of(place) as pen:
        pen.cut(100)
        pen._unverified.write_text("100")
        pen._write(b"rubbish")  # and then the server dies
    assert tus.offset(place) == 100
    assert tus.patch(place, 100, film[100:]).status_code == 204
    assert Video.objects.get().source_sha256 == hashlib.sha256(film).hexdigest()


def test_a_server_that_dies_at_the_end_leaves_an_upload_that_lacks_a_byte(
    tus: Tus, film: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else clients would think that it is done, and there would be no video."""
    place = tus.begun(len(film))

    def die(*arguments: Any, **named: Any) -> Any:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(intake, "admit", die)
        with pytest.raises(SystemExit):
            tus.patch(place, 0, film)
    assert tus.offset(place) == len(film) - 1
    assert tus.client.get(place).json()["finished"] is False
    assert tus.patch(place, len(film) - 1, film[-1:]).status_code == 204
    assert Video.objects.get().source_sha256 == hashlib.sha256(film).hexdigest()


def test_a_server_that_dies_before_the_commit_has_not_lost_the_file(
    tus: Tus, film: bytes, monkeypatch: pytest.MonkeyPatch, videos_root: Path
) -> None:
    place = tus.begun(len(film))

    def die(*arguments: Any, **named: Any) -> Any:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("videos.pipeline.start", die)
        patch.setattr(intake, "_take_back", lambda folder, upload: None)
        with pytest.raises(SystemExit):
            tus.patch(place, 0, film)
    assert not Video.objects.exists()
    assert tus.offset(place) == len(film) - 1
    assert tus.patch(place, len(film) - 1, film[-1:]).status_code == 204
    assert Video.objects.get().source_sha256 == hashlib.sha256(film).hexdigest()


def test_a_server_that_dies_after_the_commit_leaves_a_source_that_nobody_writes_to(
    tus: Tus, film: bytes, monkeypatch: pytest.MonkeyPatch, videos_root: Path
) -> None:
    """The file may have two names then, in the video's folder and in that of the upload."""
    place = tus.begun(len(film))

    def die(*arguments: Any, **named: Any) -> Any:
        raise SystemExit

    early = uploads.find(place.removeprefix(UPLOADS), "admin")
    with monkeypatch.context() as patch:
        patch.setattr("videos.resumable.uploads.storage.remove", die)
        with pytest.raises(SystemExit):
            tus.patch(place, 0, film)
    video = Video.objects.get()
    assert len(list((videos_root / "incoming").rglob("*.mp4"))) == 1
    assert tus.offset(place) == len(film)
    assert tus.patch(place, len(film) - 1, b"x").status_code == 409
    with pytest.raises(Refusal, match="finished"):  # a request that has seen it unfinished
        uploads.append(early, offset=len(film) - 1, size=1, blocks=[b"x"], checksum=None)
    ResumableUpload.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    reconcile()
    assert not ResumableUpload.objects.exists()
    assert storage.source(video).read_bytes() == film
    assert list((videos_root / "incoming").iterdir()) == []


def test_a_full_queue_is_told_and_the_upload_waits(
    tus: Tus, film: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tus.begun(len(film))

    def full(*arguments: Any, **named: Any) -> Any:
        raise QueueFull(9, 9, retry_after=17)

    with monkeypatch.context() as patch:
        patch.setattr("videos.pipeline.start", full)
        busy = tus.patch(place, 0, film)
        assert (busy.status_code, busy.json()["error"], busy["Retry-After"]) == (429, "busy", "17")
    assert not Video.objects.exists()
    assert tus.patch(place, len(film) - 1, film[-1:]).status_code == 204
    assert Video.objects.exists()


# -- one writer --------------------------------------------------------------------------------------------------------


def test_of_two_writers_one_wins(tus: Tus, film: bytes) -> None:
    place = tus.begun(len(film))
    with pen_of(place) as pen:
        pen.receive([film[:10]], None)
        second = tus.patch(place, 10, film[10:])
        assert (second.status_code, second.json()["error"]) == (423, "locked")
        assert tus.delete(place).status_code == 423
        assert tus.offset(place) == 10
        pen.receive([film[10:20]], None)
    assert tus.patch(place, 20, film[20:]).status_code == 204
    assert Video.objects.get().source_sha256 == hashlib.sha256(film).hexdigest()


def test_a_writer_of_whom_nothing_is_heard_is_replaced_and_writes_nothing_more(
    tus: Tus, film: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tus.begun(len(film))
    with pen_of(place) as silent:
        silent.receive([film[:10]], None)
        monkeypatch.setattr(arriving, "SILENCE", 0.0)
        assert tus.patch(place, 10, film[10:30]).status_code == 204
        with pytest.raises(Busy):
            silent.receive([b"late"], None)
        assert tus.offset(place) == 30
    assert tus.patch(place, 30, film[30:]).status_code == 204
    assert Video.objects.get().source_sha256 == hashlib.sha256(film).hexdigest()


def test_one_that_looks_at_a_whole_file_is_not_replaced_however_long_it_takes(
    tus: Tus, film: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tus.begun(len(film))
    monkeypatch.setattr(arriving, "SILENCE", 0.0)
    with pen_of(place) as pen:
        pen.keep()
        assert tus.patch(place, 0, film).status_code == 423
    assert tus.patch(place, 0, film[:10]).status_code == 204
    with pen_of(place), pen_of(place):
        pass


# -- refused -----------------------------------------------------------------------------------------------------------


def test_what_is_no_video_is_refused_with_the_reason_and_leaves_nothing(tus: Tus, videos_root: Path) -> None:
    letter = b"Dear all, " * 100
    place = tus.begun(len(letter))
    assert tus.patch(place, 0, letter[:-1]).status_code == 204
    refused = tus.patch(place, len(letter) - 1, letter[-1:])
    assert (refused.status_code, refused.json()) == (
        422,
        {"error": "refused", "detail": "The file is text, not a video."},
    )
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
    assert tus.begin(0).json() == {"error": "refused", "detail": "The file is empty."}
    assert tus.begin(10, Upload_Defer_Length="1").status_code == 400
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_MAX_BYTES": 100}
    large = tus.begin(101)
    assert (large.status_code, large.json()["error"]) == (413, "too_large")
    assert tus.begin(100).status_code == 201
    assert ResumableUpload.objects.count() == 1


def film_for(**metadata: str) -> str:
    return encoded(filename="film.mp4", **{"channel": str(channel().pk), **metadata})


@pytest.mark.parametrize(
    ("metadata", "status", "named"),
    [
        ("filename", 422, "channel"),
        ("", 422, "channel"),
        ("filename Zm9v,filename Zm9v", 400, "filename twice"),
        ("filename !!!", 400, "filename"),
        ("filename Zm9", 400, "filename"),
        ("filename gICA", 400, "filename"),
        ("filename Zm9v Zm9v", 400, "filename"),
        (",", 400, "key"),
        (" Zm9v", 422, "channel"),
        ("näme Zm9v", 400, "key"),
        ("a\tb Zm9v", 400, "key"),
        ("k" * 101 + " Zm9v", 400, "key"),
        ("a " + "QUFB" * 3000, 400, "more than"),
        (lambda: encoded(channel="0"), 422, "channel"),
        (lambda: encoded(channel="9" * 18), 422, "channel"),
        (lambda: encoded(channel="9" * 40), 422, "channel"),
        (lambda: encoded(channel="٣"), 422, "channel"),
        (lambda: encoded(channel="fi\0lms"), 422, "channel"),
        (lambda: encoded(channel="-1"), 422, "channel"),
        (lambda: film_for(visibility="secret"), 422, "visibility"),
        (lambda: film_for(slug="../../etc"), 422, "address"),
        (lambda: film_for(slug=""), 422, "address"),
        (lambda: film_for(slug="a" * 151), 422, "address"),
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


# -- quota, room, time -------------------------------------------------------------------------------------------------


def test_the_unfinished_uploads_of_a_user_have_a_quota(tus: Tus, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_QUOTA_BYTES": 1000, "UPLOAD_QUOTA_FILES": 3}
    place = tus.begun(600)
    over = tus.begin(401)
    assert (over.status_code, over.json()["error"], "1,000" in over.json()["detail"]) == (
        413,
        "quota_exceeded",
        True,
    )
    tus.begun(400)
    ResumableUpload.objects.update(length=1)
    tus.begun(1)
    assert tus.begin(1).json()["error"] == "quota_exceeded"
    another = Tus(client_of("add_video"))
    another.begun(1)
    tus.delete(place)
    tus.begun(1)
    assert ResumableUpload.objects.count() == 4


def test_an_upload_for_which_there_is_no_room_does_not_begin(
    tus: Tus, settings: Settings, videos_root: Path
) -> None:
    place = tus.begun(10)
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 10**18}
    for answer in (tus.begin(10), tus.patch(place, 0, b"x")):
        assert (answer.status_code, answer.json()["error"]) == (507, "no_room")
    assert ResumableUpload.objects.count() == 1
    assert tus.offset(place) == 0


def test_what_nobody_goes_on_with_expires(tus: Tus, videos_root: Path) -> None:
    place = tus.begun(10)
    tus.patch(place, 0, b"x")
    ResumableUpload.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    for answer in (tus.head(place), tus.patch(place, 1, b"x"), tus.delete(place)):
        assert answer.status_code == 410
    run_due_jobs(ahead=DAY)
    assert nothing_is_left(videos_root)
    assert tus.head(place).status_code == 404


def test_each_byte_gives_it_more_time(tus: Tus, videos_root: Path) -> None:
    place = tus.begun(10)
    soon = timezone.now() + timedelta(minutes=5)
    ResumableUpload.objects.update(expires_at=soon)
    tus.patch(place, 0, b"x")
    assert ResumableUpload.objects.get().expires_at > soon
    run_due_jobs(ahead=timedelta(hours=24, minutes=1), limit=1)
    assert tus.offset(place) == 1
    assert_enqueued(uploads.REMOVAL, turn=1)


def test_one_that_is_being_written_is_not_removed(tus: Tus) -> None:
    place = tus.begun(10)
    ResumableUpload.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    upload_id = ResumableUpload.objects.get().pk
    with pen_of(place):
        assert uploads.remove_expired(upload_id, turn=0) is False
    assert ResumableUpload.objects.exists()
    assert uploads.remove_expired(upload_id, turn=1) is True
    assert not ResumableUpload.objects.exists()


def test_without_its_job_reconcile_removes_it(tus: Tus, videos_root: Path) -> None:
    tus.begun(10)
    kept = tus.begun(10)
    Job.objects.all().delete()
    first = ResumableUpload.objects.order_by("pk")[0]
    ResumableUpload.objects.filter(pk=first.pk).update(expires_at=timezone.now() - timedelta(hours=1))
    reconcile(dry_run=True)
    assert ResumableUpload.objects.count() == 2
    reconcile()
    assert tus.offset(kept) == 0
    assert [folder.name for folder in (videos_root / "incoming").iterdir()] == [kept.removeprefix(UPLOADS)]


def test_an_upload_that_goes_on_is_no_orphan_and_one_without_a_row_is(
    tus: Tus, monkeypatch: pytest.MonkeyPatch
) -> None:
    tus.begun(10)
    monkeypatch.setattr("videos.reconciling.SETTLED", timedelta(seconds=-1))
    assert list(find_orphans()) == []
    ResumableUpload.objects.all().delete()
    (orphan,) = find_orphans()
    assert "never finished" in str(orphan)
    run_due_jobs(ahead=DAY)
    assert list(find_orphans()) == []


def test_an_upload_is_ended(tus: Tus, film: bytes, videos_root: Path) -> None:
    place = tus.begun(10)
    tus.patch(place, 0, b"x")
    assert tus.delete(place).status_code == 204
    assert tus.delete(place).status_code == 404
    assert nothing_is_left(videos_root)
    done = tus.begun(len(film))
    tus.patch(done, 0, film)
    assert tus.patch(done, len(film), b"x").status_code == 409
    assert tus.delete(done).status_code == 204
    assert Video.objects.exists()


def test_a_purged_video_leaves_its_upload_finished(tus: Tus, film: bytes) -> None:
    place = tus.begun(len(film))
    tus.patch(place, 0, film)
    Video.objects.get().transcodes.all().delete()
    Video.objects.all().delete()
    assert tus.offset(place) == len(film)
    assert tus.client.get(place).json()["video"] is None


def test_a_slug_names_the_video_that_is_there(tus: Tus, film: bytes) -> None:
    there = accept(clip(75), slug="film")
    place = tus.begun(len(film), film_for(slug="film"))
    assert tus.patch(place, 0, film).status_code == 204
    assert tus.client.get(place).json()["video"]["id"] == there.pk
    intervening.delete(there)
    place = tus.begun(len(film), film_for(slug="film"))
    assert "restore or purge" in tus.patch(place, 0, film).json()["detail"]
    assert tus.head(place).status_code == 404


# -- who may -----------------------------------------------------------------------------------------------------------


def client_of(*permissions: str, staff: bool = True, csrf: bool = False) -> Client:
    user = User.objects.create_user(f"clerk{User.objects.count()}", password="old", is_staff=staff)
    user.user_permissions.set(
        Permission.objects.filter(codename__in=permissions, content_type__app_label="videos")
    )
    client = Client(enforce_csrf_checks=csrf)
    client.force_login(user)
    return client


def test_the_permission_matrix(tus: Tus) -> None:
    mine = tus.begun(10)
    expected = {
        "anonymous": (Client(), 401, 401),
        "not staff": (client_of("add_video", staff=False), 403, 403),
        "without rights": (client_of(), 403, 403),
        "who may change and look": (client_of("view_video", "change_video", "delete_video"), 403, 403),
        "who may upload": (client_of("add_video"), 201, 404),
    }
    for who, (client, begins, others) in expected.items():
        them = Tus(client)
        assert them.begin(10).status_code == begins, who
        for answer in (them.head(mine), them.patch(mine, 0, b"x"), them.delete(mine), client.get(mine)):
            assert answer.status_code == others, who
    assert tus.offset(mine) == 0


def test_who_loses_the_right_goes_on_no_more(tus: Tus) -> None:
    client = client_of("add_video")
    them = Tus(client)
    place = them.begun(10)
    User.objects.get(username__startswith="clerk").user_permissions.clear()
    assert them.patch(place, 0, b"x").status_code == 403


def test_a_session_needs_the_csrf_token(tus: Tus) -> None:
    client = client_of("add_video", csrf=True)
    them = Tus(client)
    refused = them.begin(10)
    assert (refused.status_code, refused.json()["error"]) == (403, "csrf")
    page = client.get("/admin/videos/video/add/")
    token = page.context["csrf"]
    begun = them.begin(10, X_CSRFToken=token)
    assert begun.status_code == 201
    place = begun["Location"]
    assert them.patch(place, 0, b"x").status_code == 403
    assert them.delete(place).status_code == 403
    assert them.patch(place, 0, b"x", X_CSRFToken=token).status_code == 204
    assert them.head(place).status_code == 200
    forged = {"Tus-Resumable": "1.0.0", "X-HTTP-Method-Override": "DELETE"}
    assert client.post(place, content_type="text/plain", headers=forged).status_code == 403
    assert them.offset(place) == 1


def test_a_staff_token_needs_no_session(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}
    client_of("add_video")
    user = User.objects.get()
    out = io.StringIO()
    call_command("stafftoken", user.username, stdout=out)
    token = out.getvalue().strip()
    script = Tus(Client(enforce_csrf_checks=True))

    def status(header: str) -> int:
        return int(script.begin(10, Authorization=header).status_code)

    assert status(f"Bearer {token}") == 201
    assert status(f"bearer   {token}") == 201
    assert script.begin(10).status_code == 401
    for wrong in (
        token,
        "Bearer",
        "Bearer ",
        f"Bearer {token}x",
        f"Bearer x{token}",
        "Bearer " + "a" * 9999,
        f"Basic {token}",
        "Bearer \u00e9",
    ):
        assert status(wrong) == 401
    assert status(f"Bearer {staff_tokens.issue(user, timedelta(milliseconds=1))}") == 401
    user.set_password("new")
    user.save()
    assert status(f"Bearer {token}") == 401
    token = staff_tokens.issue(user, timedelta(days=1))
    assert status(f"Bearer {token}") == 201
    User.objects.update(is_active=False)
    assert status(f"Bearer {token}") == 401
    with pytest.raises(CommandError, match="not an active member"):
        call_command("stafftoken", user.username)


def test_wrong_tokens_are_limited_and_right_ones_are_not(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}
    settings.JOBS = {**settings.JOBS, "FAILED_AUTH_RATE": 3}
    client_of("add_video")
    token = staff_tokens.issue(User.objects.get(), timedelta(days=1))
    script = Tus(Client())
    assert [script.begin(10, Authorization="Bearer wrong").status_code for _ in range(3)] == [401] * 3
    limited = script.begin(10, Authorization="Bearer wrong")
    assert (limited.status_code, limited.json()["error"]) == (429, "too_many_tries")
    assert 1 <= int(limited["Retry-After"]) <= 60
    assert script.client.get("/api/videos", headers={"Authorization": "Bearer wrong"}).status_code == 429
    assert script.begin(10, Authorization=f"Bearer {token}").status_code == 201
