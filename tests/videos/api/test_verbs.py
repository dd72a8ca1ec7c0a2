"""The API of videos: the verbs of the admin's buttons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs.testing import run_due_jobs
from tests.support.pages.video_admin import EVIL
from tests.support.pages.video_admin import failed as failed
from tests.support.pages.video_admin import video as video
from tests.support.pages.videos_api_client import VIDEOS, refused, send
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.videos.video_site import accept, current, two_qualities
from videos import intervening
from videos.models import QualityStatus, Transcode, TranscodeStatus, Video
from videos.verbs import DELETE, RESTORE, RETRANSCODE, RETRY, Verb, situation_of

pytestmark = pytest.mark.django_db


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
        f"{RETRANSCODE.done} (360p)",
        RETRY.done,
        DELETE.done,
        RESTORE.done,
    ]
    assert {name for _, name in said} == {EVIL}


@pytest.mark.parametrize(
    ("path", "verb", "situation"),
    [
        ("retranscode", RETRANSCODE, "active"),
        ("retranscode", RETRANSCODE, "deleted"),
        ("retry", RETRY, "ready"),
        ("retry", RETRY, "deleted"),
        ("restore", RESTORE, "ready"),
    ],
)
def test_what_is_not_possible_says_why(
    video: Video, admin_client: Client, path: str, verb: Verb, situation: str
) -> None:
    if situation == "active":
        intervening.retranscode(video)
    elif situation == "deleted":
        intervening.delete(video)
    why = verb.obstacle(situation_of(Video.objects.get()))
    assert why
    answer = send(admin_client, "POST", f"{VIDEOS}/{video.pk}/{path}")
    assert refused(answer, 409, "not_possible", why)
    listed = admin_client.post(
        f"/admin/videos/video/{'?deleted=yes' if situation == 'deleted' else ''}",
        {"action": verb.name, "_selected_action": video.pk},
        follow=True,
    )
    (message,) = listed.context["messages"]
    assert (message.extra_tags, why in str(message)) == ("not_possible", True)


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
