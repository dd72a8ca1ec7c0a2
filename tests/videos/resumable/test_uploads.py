"""Resumable uploads (tus 1.0) as they should be: in pieces, with checksums, and what becomes of them."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.test import Client
from pytest_django import Settings

from jobs.testing import run_due_jobs
from tests.support.servers.tus import UPLOADS, Tus, encoded, film_for, nothing_is_left, sha
from tests.support.servers.tus import film as film
from tests.support.servers.tus import tus as tus
from tests.support.videos.video_site import accept, channel, clip, current
from videos import intervening
from videos.models import Video

pytestmark = pytest.mark.django_db


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
    refused = tus.patch(place, 0, film)
    assert (refused.status_code, refused.json()["error"]) == (422, "refused")
    assert tus.head(place).status_code == 404
