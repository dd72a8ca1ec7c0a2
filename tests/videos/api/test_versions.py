"""The API and the command: which qualities a new version encodes and keeps, why one has failed, what can be retried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs import lifecycle
from jobs.models import Event, Job, Kind, Status
from jobs.overview import snapshot
from jobs.testing import run_due_jobs
from tests.conftest import RunManage
from tests.support.pages.video_admin import Act, page_of, told
from tests.support.pages.video_admin import act as act
from tests.support.pages.videos_api_client import VIDEOS, refused, send
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.videos.video_failures import break_stage as break_stage
from tests.support.videos.video_failures import run_all
from tests.support.videos.video_site import accept, current, two_qualities
from videos import intervening, storage
from videos.models import Transcode, Video
from videos.verbs import RETRANSCODE

pytestmark = pytest.mark.django_db


@pytest.fixture
def video(videos_root: Path) -> Video:
    """Published in 480p and 360p."""
    made = accept(two_qualities(50), slug="film", title="Film")
    run_due_jobs()
    return made


def shown(client: Client, video: Video) -> dict[str, object]:
    return dict(send(client, "GET", f"{VIDEOS}/{video.pk}").json()["transcode"])


# -- which qualities ---------------------------------------------------------------------------------------------------


def test_the_answer_names_what_is_encoded_and_what_is_kept(video: Video, admin_client: Client) -> None:
    at = f"{VIDEOS}/{video.pk}/retranscode"
    answer = send(admin_client, "POST", at, {"qualities": ["360p"]}).json()["transcode"]
    expected = {"number": 2, "encoded": ["360p"], "kept": ["480p"], "based_on": 1}
    assert expected.items() <= answer.items()
    run_due_jobs()
    after = shown(admin_client, video)
    assert ({**expected, "status": "published"}).items() <= after.items()
    master = admin_client.get("/v/film/g2/master.m3u8")
    listed = b"".join(master.streaming_content).decode()  # type: ignore[attr-defined]
    assert "480p/playlist.m3u8" in listed
    assert "360p/playlist.m3u8" in listed
    assert LogEntry.objects.get().change_message == f"{RETRANSCODE.done} (360p; 480p kept from version 1)"


@pytest.mark.parametrize(
    ("qualities", "code"), [(["1080p"], "above_source"), (["360p"], "published_damaged")]
)
def test_what_cannot_be_is_refused_with_its_code(
    video: Video, admin_client: Client, qualities: list[str], code: str
) -> None:
    (storage.generation(current(video)) / "480p" / "seg_00001.m4s").unlink()
    assert refused(
        send(admin_client, "POST", f"{VIDEOS}/{video.pk}/retranscode", {"qualities": qualities}), 409, code
    )
    assert Transcode.objects.count() == 1


def test_the_page_of_the_admin_says_it_before_and_after(video: Video, admin_client: Client, act: Act) -> None:
    assert 'data-published="480p 360p"' in page_of(admin_client, video)
    assert told(act(video, "retranscode", quality=["360p"])) == ["done_retranscode success"]
    run_due_jobs()
    assert 'data-encoded="360p" data-kept="480p"' in page_of(admin_client, video)


@pytest.mark.django_db(transaction=True)
def test_the_command_says_which_are_kept(video: Video, run_manage: RunManage) -> None:
    root = {"VIDEOS_ROOT": str(storage.root())}
    said = run_manage("videos", "retranscode", "film", "--qualities", "360p", env=root).stdout
    assert ("360p" in said, "480p" in said, "version 1" in said) == (True, True, True)
    assert Transcode.objects.get(number=2).kept_qualities == ["480p"]


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_failed_retranscode_says_why_although_the_video_stays_ready(
    video: Video, admin_client: Client, break_stage: Callable[[str], None]
) -> None:
    break_stage("videos.audio")
    intervening.retranscode(video)
    run_all()
    answer = send(admin_client, "GET", f"{VIDEOS}/{video.pk}").json()
    assert (answer["status"], answer["generation"], answer["error_message"]) == ("ready", 1, "")
    newest = answer["transcode"]
    assert (newest["number"], newest["status"], newest["failed_stages"]) == (2, "failed", ["videos.audio"])
    assert newest["error"]
    assert newest["error"] in page_of(admin_client, video)


def test_failures_of_a_version_that_was_replaced_are_settled_with_it(
    video: Video, admin_client: Client, break_stage: Callable[[str], None]
) -> None:
    break_stage("videos.audio")
    intervening.retranscode(video)
    run_all()
    failed = Job.objects.get(status=Status.FAILED)
    assert snapshot()["failed"] == 1
    newer = intervening.retranscode(video)
    failed.refresh_from_db()
    assert (failed.status, bool(failed.last_error)) == (Status.CANCELLED, True)
    assert failed.attempts.get().outcome == "failed", "what happened stays written down"
    assert Event.objects.get(job=failed, kind=Kind.CANCELLED).detail
    assert snapshot()["failed"] == 0
    intervening.cancel(video)
    assert newer.number == 3
    assert Transcode.objects.get(number=2).status == "failed"


def test_failures_of_a_purged_video_are_settled(video: Video, break_stage: Callable[[str], None]) -> None:
    break_stage("videos.audio")
    intervening.retranscode(video)
    run_all()
    intervening.purge(video)
    assert not Job.objects.failed().exists()


def test_a_version_without_pictures_gets_them_alone(
    videos_root: Path, admin_client: Client, break_stage: Callable[[str], None]
) -> None:
    from jobs import registry

    healthy = registry.get("videos.thumbnail")
    break_stage("videos.thumbnail")
    video = accept(two_qualities(50), slug="film")
    run_all()
    at = f"{VIDEOS}/{video.pk}"
    before = send(admin_client, "GET", at).json()
    assert (before["status"], before["transcode"]["failed_stages"]) == ("ready", ["videos.thumbnail"])
    assert "retry" in before["possible"]
    assert 'data-failed-stages="videos.thumbnail"' in page_of(admin_client, video)
    poster = storage.generation(current(video)) / "poster.jpg"
    assert not poster.exists()
    registry._types["videos.thumbnail"] = healthy
    assert send(admin_client, "POST", f"{at}/retry").status_code == 200
    assert [run.type for run in run_due_jobs()] == ["videos.thumbnail"]
    after = send(admin_client, "GET", at).json()
    assert (after["generation"], after["transcode"]["failed_stages"]) == (1, [])
    assert "retry" not in after["possible"]
    assert admin_client.get("/v/film/g1/poster.jpg").status_code == 200


def test_pictures_that_fail_again_can_be_retried_again(
    videos_root: Path, break_stage: Callable[[str], None]
) -> None:
    break_stage("videos.thumbnail")
    video = accept(two_qualities(50))
    run_all()
    for _ in range(2):
        intervening.retry(video)
        run_all()
        assert Job.objects.get(type="videos.thumbnail").status == Status.FAILED
        video.refresh_from_db()
        assert video.status == "ready"
    newer = intervening.retranscode(video)
    assert Job.objects.get(type="videos.thumbnail").status == Status.FAILED, "it is what viewers get"
    run_all()
    assert current(video) == newer
    settled, own = Job.objects.filter(type="videos.thumbnail").order_by("pk")
    assert (settled.status, own.status) == (Status.CANCELLED, Status.FAILED)
    assert lifecycle.settle_failures([settled.pk], reason="twice") == []
