"""Resumable uploads whose connection is lost or whose server dies, and two that write at once."""

from __future__ import annotations

import hashlib
import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from jobs.exceptions import QueueFull
from jobs.reconcile import reconcile
from jobs.refusal import Refusal
from tests.support.servers.tus import UPLOADS, Tus, pen_of, sha
from tests.support.servers.tus import film as film
from tests.support.servers.tus import tus as tus
from tests.support.videos.codes import coded
from videos import intake, storage
from videos.models import ResumableUpload, Video
from videos.resumable import arriving, uploads
from videos.resumable.arriving import Busy

pytestmark = pytest.mark.django_db


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
    with pytest.raises(Refusal, check=coded("wrong_offset")):  # a request that has seen it unfinished
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
