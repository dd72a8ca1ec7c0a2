"""Videos in the admin: every verb, subtitles, channels, texts that stay texts, and somebody's own admin site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from jobs.testing import run_due_jobs
from tests.support.pages.video_admin import EVIL, LIST, Act, page_of, told
from tests.support.pages.video_admin import act as act
from tests.support.pages.video_admin import failed as failed
from tests.support.pages.video_admin import video as video
from tests.support.pages.video_admin import waiting as waiting
from tests.support.videos.video_site import accept, current, two_qualities
from videos import intervening
from videos.admin import video as video_admin
from videos.media.webvtt import MOST_BYTES
from videos.models import Channel, QualityStatus, Subtitle, Transcode, TranscodeStatus, Video, VideoStatus
from videos.verbs import CANCEL, DELETE, PURGE, RESTORE, RETRANSCODE, RETRY, VERBS, situation_of

pytestmark = pytest.mark.django_db

CUES = b"WEBVTT\n\n00:01.000 --> 00:02.000\n<script>x</script>Hi\n"


def test_every_verb_does_what_it_says_and_is_in_the_log(video: Video, act: Act, admin_client: Client) -> None:
    assert told(act(video, "retranscode", quality="360p")) == ["done_retranscode success"]
    assert Transcode.objects.get(number=2).requested_qualities == ["360p"]
    assert told(act(video, "cancel")) == ["done_cancel success"]
    assert told(act(video, "retry")) == ["done_retry success"]
    run_due_jobs()
    assert current(video).number == 2
    assert told(act(video, "delete")) == ["done_delete success"]
    assert EVIL not in admin_client.get(LIST).content.decode()
    assert told(act(video, "restore")) == ["done_restore success"]
    act(video, "delete")
    assert told(act(video, "purge")) == ["done_purge success"]
    assert not Video.objects.exists()
    said = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(said) == [
        f"{RETRANSCODE.done} (360p)",
        *(verb.done for verb in (CANCEL, RETRY, DELETE, RESTORE, DELETE, PURGE)),
    ]


def test_one_failed_quality_is_retried(videos_root: Path, act: Act, admin_client: Client) -> None:
    video = accept(two_qualities(50), slug="film")
    run_due_jobs()
    Transcode.objects.get().qualities.filter(quality="480p").update(
        status=QualityStatus.FAILED, completed_at=None, error_message="too hard"
    )
    Transcode.objects.get().renditions.filter(name="480p").delete()
    offered = r'form="retry-quality" name="quality" value="([^"]+)"'
    assert re.findall(offered, page_of(admin_client, video)) == ["480p"]
    assert told(act(video, "retry_quality", quality="360p")) == ["nothing_failed error"]
    assert Transcode.objects.count() == 1, "it did not fail"
    assert told(act(video, "retry_quality", quality="480p")) == ["done_retry_quality success"]
    assert Transcode.objects.filter(status=TranscodeStatus.PENDING).get().number == 2


def test_a_second_click_does_nothing(video: Video, admin_client: Client) -> None:
    order = {"verb": "retranscode", "seen": situation_of(video).seen}
    first, second = (
        admin_client.post(f"{LIST}{video.pk}/act/", order, follow=True).content.decode() for _ in range(2)
    )
    assert told(first) == ["done_retranscode success"]
    assert told(second) == ["not_possible warning"]
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
        assert told(act(video, verb)) == ["not_possible warning"]
    assert admin_client.post(f"{LIST}{video.pk}/act/", {"verb": "explode"}).status_code == 400
    assert told(act(video, "retranscode", quality="9p")) == ["unknown_quality error"]
    assert admin_client.get(f"{LIST}{video.pk}/act/").status_code == 405
    gone = admin_client.post(f"{LIST}01ARZ3NDEKTSV4RRFFQ69G5FAV/act/", {"verb": "retry"}, follow=True)
    assert told(gone.content.decode()) == ["not_found warning"]
    assert not LogEntry.objects.exists()
    assert Transcode.objects.count() == 1


def test_actions_on_a_selection(video: Video, failed: Video, waiting: Video, admin_client: Client) -> None:
    def on(action: str, *videos: Video, query: str = "", **more: Any) -> str:
        order = {"action": action, "_selected_action": [v.pk for v in videos], **more}
        return admin_client.post(LIST + query, order, follow=True).content.decode()

    said = on("retry", video, failed)
    assert told(said) == ["done_retry success", "not_possible warning"]
    assert Transcode.objects.active().filter(video=failed).exists()
    assert told(on("delete", video, failed, waiting)) == ["done_delete success"]
    assert Video.objects.filter(deleted_at__isnull=True).count() == 0
    assert 'name="confirmed" value="yes"' in on("purge", video, query="?deleted=yes")
    assert Video.objects.count() == 3
    assert told(on("restore", video, waiting, query="?deleted=yes")) == ["done_restore success"]
    assert Video.objects.filter(deleted_at__isnull=True).count() == 2
    assert told(on("purge", failed, query="?deleted=yes", confirmed="yes")) == ["done_purge success"]
    assert not Video.objects.filter(pk=failed.pk).exists()
    assert LogEntry.objects.filter(change_message=PURGE.done).get().object_repr == "Failed"


def test_a_video_of_a_selection_that_has_changed_meanwhile_refuses(
    video: Video, failed: Video, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_before = situation_of(failed)
    monkeypatch.setattr(video_admin, "situation_of", lambda _: seen_before)
    order = {"action": "retry", "_selected_action": [video.pk, failed.pk]}
    answer = admin_client.post(LIST, order, follow=True).content.decode()
    assert [tag.split()[-1] for tag in told(answer)] == ["error", "success"]


def test_subtitles_are_uploaded_made_safe_and_removed(video: Video, admin_client: Client) -> None:
    address = f"{LIST}{video.pk}/subtitles/"

    def post(**form: Any) -> list[str]:
        return told(admin_client.post(address, form, follow=True).content.decode())

    def upload(language: str, content: bytes, **more: str) -> list[str]:
        return post(language=language, file=SimpleUploadedFile("a.vtt", content), **more)

    assert post(language="en") == ["no_file error"]
    assert upload("../x", CUES) == ["bad_language error"]
    assert upload("en", b"nothing") == ["no_subtitles error"]
    assert upload("en", b"x" * (MOST_BYTES + 1)) == ["subtitles_too_large error"]
    assert not Subtitle.objects.exists()
    assert upload("en", CUES, label=EVIL) == ["subtitles_stored success"]
    assert "<script" not in video.subtitles.get().webvtt
    assert EVIL not in page_of(admin_client, video)
    assert post(remove="en") == ["subtitles_removed success"]
    assert post(remove="en") == ["not_found warning"]
    assert not Subtitle.objects.exists()
    assert LogEntry.objects.count() == 2


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


@pytest.mark.urls("tests.support.pages.own_video_admin")
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


def test_a_channel_counts_what_is_kept_and_links_to_it(
    video: Video, failed: Video, waiting: Video, admin_client: Client
) -> None:
    intervening.delete(waiting)
    page = admin_client.get("/admin/videos/channel/").content.decode()
    address = f"/admin/videos/video/?channel={video.channel_id}&amp;status="
    assert f'href="{address}ready" data-status="ready">1 ' in page
    assert f'href="{address}failed" data-status="failed">1 ' in page
    assert 'data-status="pending"' not in page
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
