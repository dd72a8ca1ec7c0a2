"""Resumable uploads: quota, room, and the time after which what nobody goes on with is removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from jobs.models import Job
from jobs.reconcile import reconcile
from jobs.testing import assert_enqueued, run_due_jobs
from tests.support.servers.tus import DAY, UPLOADS, Tus, nothing_is_left, pen_of
from tests.support.servers.tus import tus as tus
from tests.support.videos.video_site import client_of
from videos import storage
from videos.models import ResumableUpload
from videos.reconciling import find_orphans
from videos.resumable import uploads

pytestmark = pytest.mark.django_db


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
    assert orphan.path.parent == storage.root() / "incoming"
    run_due_jobs(ahead=DAY)
    assert list(find_orphans()) == []
