"""Videos in the admin: upload, watch them being encoded, play, mend, delete; all by hand in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FileChooser, Page, Route, expect

from tests.support.browser import films
from tests.support.browser.fixtures import OpenPage
from tests.support.browser.site import Site
from tests.support.processes import wait_until
from videos.media import containers
from videos.media.exceptions import NotPlayable

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def channel(site: Site) -> str:
    return site.backstage.call(_channel, "admin-films")


def list_page(page: Page) -> None:
    page.goto("/admin/videos/video/")


def message(page: Page, code: str) -> Any:
    return page.locator(f".messagelist .success.{code}")


RECORD_BARS = """() => {
    window.barsSeen = [];
    new MutationObserver(() => {
        const bars = document.querySelectorAll('progress[aria-label^="upload of"]');
        window.barsSeen.push(...[...bars].map((bar) => bar.value));
    }).observe(document.body, { subtree: true, attributes: true, childList: true });
}"""


def test_a_file_is_uploaded_encoded_and_watched_in_place(
    page: Page, site: Site, channel: str, tmp_path: Path
) -> None:
    film = tmp_path / "My <b>first film.mp4"
    padding = 100_000_000  # a box that players skip, so that the bar has some way to go
    film.write_bytes(films.clip().read_bytes() + padding.to_bytes(4, "big") + b"free" + bytes(padding - 8))
    page.goto("/admin/videos/video/")
    page.get_by_role("link", name="Upload videos").click()
    page.get_by_label("Channel").select_option("Admin-Films")
    with films.held_back(site.backstage, "videos.finalize"):
        page.evaluate(RECORD_BARS)
        page.get_by_label("Drop videos here").set_input_files(str(film))
        verdict = page.locator(".v-verdict")
        expect(page.locator(".v-upload")).to_have_attribute("data-state", "accepted")
        expect(page.get_by_role("progressbar", name="upload of")).to_have_js_property("value", 100)
        assert page.evaluate("() => window.barsSeen.some((at) => at > 0 && at < 100)")
        verdict.get_by_role("link", name="My <b>first film").click()
        expect(page.get_by_role("heading", name="My <b>first film")).to_be_visible()
        page.wait_for_function("() => document.querySelector('progress[aria-label=\"480p\"]')?.value === 100")
        assert page.locator("video").count() == 0
    expect(page.locator("[data-player] video")).to_be_visible()
    page.get_by_role("button", name="Play").first.click()
    page.wait_for_function("() => document.querySelector('video').currentTime > 0.5")
    expect(page.locator(".v-head .sp-badge").first).to_have_attribute("data-status", "ready")


PIECE = 16 * 1024 * 1024


def large_film(tmp_path: Path, title: str) -> Path:
    """Three pieces: a clip, and a box that players skip."""
    film = tmp_path / f"{title}.mp4"
    padding = 2 * PIECE + 1000
    film.write_bytes(films.clip().read_bytes() + padding.to_bytes(4, "big") + b"free" + bytes(padding - 8))
    return film


class Wire:
    """Between the page and the server: cuts off every piece but the first, while it is `cut`."""

    def __init__(self, page: Page) -> None:
        self.cut = True
        self.sent: list[int] = []
        page.route("**/api/uploads/*", self._pass)

    def _pass(self, route: Route) -> None:
        if route.request.method == "PATCH":
            offset = int(route.request.headers["upload-offset"])
            if self.cut and offset:
                route.abort("connectionfailed")
                return
            self.sent.append(offset)
        route.continue_()


def test_a_lost_connection_is_told_and_the_upload_goes_on(
    page: Page, channel: str, tmp_path: Path, forgive: Any
) -> None:
    forgive("ERR_CONNECTION_FAILED")
    wire = Wire(page)
    page.goto("/admin/videos/video/add/")
    page.get_by_label("Drop videos here").set_input_files(str(large_film(tmp_path, "Cut off")))
    upload, verdict = page.locator(".v-upload"), page.locator(".v-verdict")
    expect(upload).to_have_attribute("data-state", "waiting")
    expect(verdict).to_have_attribute("role", "status")
    assert 0 < page.get_by_role("progressbar", name="upload of").evaluate("(bar) => bar.value") < 100
    wire.cut = False
    expect(upload).to_have_attribute("data-state", "accepted")
    expect(verdict.get_by_role("link", name="Cut off")).to_be_visible()
    assert wire.sent == [0, PIECE, 2 * PIECE]


def test_an_upload_goes_on_after_a_reload_when_the_same_file_is_dropped_again(
    page: Page, channel: str, tmp_path: Path, forgive: Any, site: Site
) -> None:
    forgive("ERR_CONNECTION_FAILED")
    wire, film = Wire(page), large_film(tmp_path, "Dropped again")
    page.goto("/admin/videos/video/add/")
    page.get_by_label("Drop videos here").set_input_files(str(film))
    upload, verdict = page.locator(".v-upload"), page.locator(".v-verdict")
    expect(upload).to_have_attribute("data-state", "waiting")
    expect(verdict).to_have_attribute("role", "status")
    page.reload()
    expect(verdict).to_have_count(0)
    wire.cut = False
    page.get_by_label("Drop videos here").set_input_files(str(film))
    expect(verdict.get_by_role("link", name="Dropped again")).to_be_visible()
    expect(page.locator(".v-upload[data-state=accepted]")).to_have_count(1)
    assert wire.sent == [0, PIECE, 2 * PIECE]
    assert page.evaluate("() => Object.keys(localStorage).filter((key) => key.startsWith('sprocket.'))") == []


def test_an_upload_that_is_stopped_leaves_nothing(
    page: Page, channel: str, tmp_path: Path, forgive: Any, site: Site
) -> None:
    forgive("ERR_CONNECTION_FAILED")
    Wire(page)
    page.goto("/admin/videos/video/add/")
    before = site.backstage.call(_unfinished)
    page.get_by_label("Drop videos here").set_input_files(str(large_film(tmp_path, "Stopped")))
    upload = page.locator(".v-upload")
    expect(upload).to_have_attribute("data-state", "waiting")
    expect(upload.locator(".v-verdict")).to_have_attribute("role", "status")
    assert site.backstage.call(_unfinished) == before + 1
    asked: list[str] = []
    page.on(
        "request", lambda request: asked.append(request.method) if "/api/uploads/" in request.url else None
    )
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(upload).to_have_attribute("data-state", "refused")
    wait_until(lambda: site.backstage.call(_unfinished) == before)
    assert "POST" not in asked, "what was removed does not begin anew"


def text_refusal(path: Path) -> str:
    """What a person is told about a file that is text."""
    with pytest.raises(NotPlayable) as refusal:
        containers.sniff(path)
    assert refusal.value.code == "text"
    return refusal.value.reason


def test_what_is_no_video_is_refused_with_the_reason(
    page: Page, channel: str, tmp_path: Path, forgive: Any, site: Site
) -> None:
    forgive("422")
    text = tmp_path / "letter.mp4"
    text.write_text("Dear all, this is a letter. " * 1000)
    sound = tmp_path / f"{EVIL}.mp4"
    sound.write_bytes(b"\0" * 1000)
    page.goto("/admin/videos/video/add/")
    large = tmp_path / "novel.mp4"
    large.write_text("Dear all, this is a long letter. " * 600_000)
    page.get_by_label("Drop videos here").set_input_files([str(text), str(sound), str(large)])
    expect(page.locator(".v-upload[data-state=refused]")).to_have_count(3)
    reason = text_refusal(text)
    for name in ("novel.mp4", "letter.mp4"):
        verdict = page.locator(".v-upload", has_text=name).locator(".v-verdict")
        expect(verdict).to_contain_text(reason)
    assert site.backstage.call(_count, "letter") == 0


def test_the_list_moves_by_itself_and_each_button_does_what_it_says(page: Page, site: Site) -> None:
    with films.held_back(site.backstage, "videos.finalize"):
        video_id = site.backstage.call(films.accept, films.clip(), "moving", title=f"{EVIL} moving")
        list_page(page)
        row = page.locator("#result_list tr", has_text="moving")
        expect(row.get_by_text(f"{EVIL} moving")).to_be_visible()
        page.wait_for_function(
            f"() => document.querySelector('[data-live=\"video.{video_id}.percent\"]').value > 50"
        )
    expect(row.locator(".sp-badge")).to_have_attribute("data-status", "ready")

    row.get_by_role("link", name="moving").click()
    page.get_by_text("Transcode again…").click()
    page.get_by_role("checkbox", name="360p").check()
    page.get_by_role("button", name="Retranscode").click()
    expect(message(page, "done_retranscode")).to_be_visible()
    expect(page.locator("#v-stage")).to_have_attribute("data-generation", "2")
    expect(page.get_by_role("progressbar", name="360p")).to_have_js_property("value", 100)
    expect(page.get_by_role("progressbar", name="480p")).to_have_js_property("value", 100)
    expect(page.locator('[data-encoded="360p"][data-kept="480p"]')).to_be_visible()

    films.wait_until_loaded(page)
    page.get_by_role("button", name="Delete").click()
    expect(message(page, "done_delete")).to_be_visible()
    expect(page.locator("video")).to_have_count(0)
    list_page(page)
    expect(page.locator("#result_list tr", has_text="moving")).to_have_count(0)
    page.get_by_role("link", name="in the bin").click()
    page.get_by_role("link", name="moving").click()
    page.get_by_role("button", name="Restore").click()
    expect(message(page, "done_restore")).to_be_visible()
    expect(page.locator("[data-player]")).to_be_visible()
    films.wait_until_loaded(page)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="Purge…").click()
    page.get_by_role("button", name="Purge 1 video").click()
    expect(message(page, "done_purge")).to_be_visible()


def test_a_failed_video_is_retried_and_one_that_runs_is_cancelled(page: Page, site: Site) -> None:
    with films.held_back(site.backstage, "videos.probe"):
        video_id = site.backstage.call(films.accept, films.clip(), "unlucky", title="Unlucky")
        site.backstage.call(films.break_source, video_id)
    page.goto(f"/admin/videos/video/{video_id}/change/")
    expect(page.locator(".v-side .sp-error")).to_be_visible()
    site.backstage.call(_mend_source, video_id, films.clip())
    with films.held_back(site.backstage, "videos.finalize"):
        page.get_by_role("button", name="Retry", exact=True).click()
        expect(message(page, "done_retry")).to_be_visible()
        page.wait_for_function("() => document.querySelector('progress[aria-label=\"360p\"]')?.value === 100")
        page.get_by_role("button", name="Cancel the transcode").click()
        expect(message(page, "done_cancel")).to_be_visible()
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.locator("[data-player]")).to_be_visible()


def test_subtitles_are_uploaded_and_shown(page: Page, site: Site, tmp_path: Path) -> None:
    video_id = site.backstage.call(films.publish, films.clip(), "spoken", title="Spoken")
    file = tmp_path / "words.srt"
    file.write_text("1\n00:00:00,000 --> 00:00:09,000\nGood <i>morning</i>\n")
    page.goto(f"/admin/videos/video/{video_id}/change/")
    page.get_by_label("File (SRT or WebVTT)").set_input_files(str(file))
    page.get_by_label("Language").fill("en")
    page.get_by_label("Name").fill("English")
    page.get_by_role("button", name="Upload subtitles").click()
    expect(message(page, "subtitles_stored")).to_be_visible()
    page.get_by_role("button", name="Captions").click()
    page.get_by_role("menuitemradio", name="English").click()
    films.never_end(page)
    page.get_by_role("button", name="Play").first.click()
    expect(page.locator(".vp-captions")).to_have_text("Good morning")
    page.get_by_role("button", name="Remove the subtitles in en").click()
    expect(message(page, "subtitles_removed")).to_be_visible()


def test_a_channel_counts_its_videos_and_leads_to_them(page: Page, site: Site) -> None:
    site.backstage.call(films.publish, films.clip(), "counted", title="Counted", channel="counting")
    page.goto("/admin/videos/channel/")
    page.locator("tr", has_text="Counting").get_by_role("link", name="1 ready").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    expect(page.locator("#result_list")).to_contain_text("Counted")


@pytest.mark.parametrize("dark", [False, True])
def test_the_pages_fit_a_phone(open_page: OpenPage, site: Site, dark: bool) -> None:
    video_id = site.backstage.call(films.publish, films.clip(), "small", title="Small " + "word " * 20)
    page = open_page(user="admin", phone=True, dark=dark)
    for address in (
        "/admin/videos/video/",
        "/admin/videos/video/add/",
        f"/admin/videos/video/{video_id}/change/",
        "/admin/videos/channel/",
    ):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address


def test_an_upload_is_made_with_keys_alone(page: Page, channel: str, site: Site) -> None:
    page.goto("/admin/videos/video/add/")
    page.get_by_label("Drop videos here").focus()
    choosers: list[FileChooser] = []
    page.on("filechooser", lambda chooser: choosers.append(chooser))
    for _ in range(60):  # Chromium may take the first key before it knows that somebody listens
        page.keyboard.press("Enter")
        page.wait_for_timeout(1000)
        if choosers:
            break
    choosers[0].set_files(str(films.clip()))
    link = page.locator(".v-verdict a")
    expect(link).to_be_visible()
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/change/")


# -- backstage ---------------------------------------------------------------------------------------------------------


def _channel(slug: str) -> str:
    from tests.support.videos.video_site import channel

    return str(channel(slug).pk)


def _count(slug: str) -> int:
    from videos.models import Video

    return int(Video.objects.filter(slug=slug).count())


def _unfinished() -> int:
    from videos.models import ResumableUpload

    return int(ResumableUpload.objects.unfinished().count())


def _mend_source(video_id: str, path: Path) -> None:
    from videos import storage
    from videos.models import Video

    storage.source(Video.objects.get(pk=video_id)).write_bytes(path.read_bytes())
