"""The watch page and the channel page, as viewers see them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import films
from tests.support.browser.fixtures import OpenPage
from tests.support.browser.site import Site

TITLE = "<img src=x onerror=alert(1)> & <b>a film</b>"


@pytest.fixture(scope="module")
def film(site: Site) -> str:
    """The address of a video with captions, whose title is HTML."""
    video_id = site.backstage.call(films.publish, films.clip(), "film", title=TITLE)
    site.backstage.call(films.add_captions, video_id)
    return "/v/film/"


def wait_for_time(page: Page, seconds: float) -> None:
    page.wait_for_function("at => document.querySelector('video')?.currentTime > at", arg=seconds)


def value(page: Page, expression: str) -> object:
    return page.evaluate(f"document.querySelector('video').{expression}")


@pytest.mark.parametrize("engine", ["hls.js", "native"])
def test_a_video_plays_across_its_chunks(
    open_page: OpenPage, film: str, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "hls.js":
        request.getfixturevalue("hls_js")
    page = open_page()
    page.goto(f"{film}?player={engine}")
    page.get_by_role("button", name="Play").first.click()
    wait_for_time(page, films.CHUNK_SECONDS + 1)
    assert page.locator("[data-player]").get_attribute("data-engine") == engine
    assert value(page, "duration") == pytest.approx(films.SECONDS, abs=0.3)
    page.wait_for_function(
        "frames => document.querySelector('video').webkitDecodedFrameCount > frames",
        arg=25 * films.CHUNK_SECONDS,
    )


@pytest.mark.usefixtures("hls_js")
def test_the_quality_is_chosen_from_a_menu(open_page: OpenPage, film: str) -> None:
    page = open_page()
    page.goto(film)
    page.locator("video").evaluate("video => (video.loop = true)")  # never over, however slow the machine
    page.get_by_role("button", name="Play").first.click()
    for wanted in (480, 360, 480):
        page.get_by_role("button", name="Quality").click()
        page.get_by_role("menuitemradio", name=f"{wanted}p", exact=True).click()
        page.wait_for_function("height => document.querySelector('video').videoHeight === height", arg=wanted)
        expect(page.get_by_role("button", name="Quality")).to_have_text(f"{wanted}p")
    assert page.locator("[data-player]").get_attribute("data-engine") == "hls.js"


def test_captions_show_and_are_text(open_page: OpenPage, film: str) -> None:
    page = open_page()
    page.goto(film)
    page.get_by_role("button", name="Captions").click()
    page.get_by_role("menuitemradio", name="English").click()
    films.never_end(page)
    page.get_by_role("button", name="Play").first.click()
    expect(page.locator(".vp-captions")).to_have_text("First words")
    page.keyboard.press("6")
    expect(page.locator(".vp-captions")).to_have_text("Last words")
    page.keyboard.press("c")
    expect(page.locator(".vp-captions")).to_have_text("")


def test_on_a_phone_a_preview_does_not_cover_captions(open_page: OpenPage, film: str) -> None:
    page = open_page(phone=True)
    page.goto(film)
    films.never_end(page)
    page.get_by_role("button", name="Play").first.click()
    page.keyboard.press("c")
    words = page.locator(".vp-captions span").first
    expect(words).to_be_visible()
    page.keyboard.press("k")
    page.locator(".vp-seekbar").hover()
    expect(page.locator(".vp-preview-picture")).to_be_visible()
    page.wait_for_function(
        """() => document.querySelector(".vp-captions span").getBoundingClientRect().bottom
            <= document.querySelector(".vp-preview").getBoundingClientRect().top"""
    )


def test_the_speed_is_chosen_and_kept_for_the_next_video(open_page: OpenPage, film: str) -> None:
    page = open_page()
    page.goto(film)
    page.get_by_role("button", name="Speed").click()
    page.get_by_role("menuitemradio", name="1.5×").click()
    assert value(page, "playbackRate") == 1.5
    page.reload()
    expect(page.get_by_role("button", name="Speed")).to_have_text("1.5×")


def test_the_storyboard_shows_above_the_seek_bar(open_page: OpenPage, film: str) -> None:
    page = open_page()
    page.goto(film)
    bar = page.locator(".vp-seekbar")
    bar.hover(position={"x": 300, "y": 10})
    expect(page.locator(".vp-preview-time")).to_be_visible()
    bar.hover(position={"x": 600, "y": 10})
    picture = page.locator(".vp-preview-picture")
    expect(picture).to_be_visible()
    assert "storyboard_001.jpg" in picture.evaluate("node => node.style.backgroundImage")


@pytest.mark.usefixtures("hls_js")
def test_everything_is_done_with_keys_alone(open_page: OpenPage, film: str) -> None:
    page = open_page()
    page.goto(film)
    page.wait_for_function("() => document.querySelector('video').readyState >= 2")
    page.keyboard.press("k")
    page.wait_for_function("() => !document.querySelector('video').paused")
    page.keyboard.press("k")
    page.wait_for_function("() => document.querySelector('video').paused")
    page.keyboard.press("5")
    assert value(page, "currentTime") == pytest.approx(films.SECONDS / 2, abs=0.2)
    page.keyboard.press("ArrowLeft")
    assert value(page, "currentTime") == pytest.approx(0, abs=0.2)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("j")
    assert value(page, "currentTime") == pytest.approx(0, abs=0.2)
    page.keyboard.press("l")
    assert value(page, "currentTime") == pytest.approx(films.SECONDS, abs=0.3)
    page.keyboard.press("0")
    page.keyboard.press("m")
    assert value(page, "muted") is True
    page.keyboard.press("m")
    page.keyboard.press("ArrowDown")
    assert value(page, "volume") == pytest.approx(0.9)
    page.keyboard.press(">")
    page.keyboard.press(">")
    page.keyboard.press("<")
    assert value(page, "playbackRate") == 1.25
    page.keyboard.press("c")
    assert value(page, "textTracks[0].mode") == "hidden", "drawn by the page itself"
    page.keyboard.press("f")
    page.wait_for_function("() => document.fullscreenElement !== null")
    page.keyboard.press("f")
    page.wait_for_function("() => document.fullscreenElement === null")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.get_by_role("button", name="Quality").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitemradio", name="Auto")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Quality")).to_have_text("480p")
    expect(page.get_by_role("button", name="Quality")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.get_by_role("menu", name="Quality")).to_be_visible()
    page.keyboard.press("Escape")
    assert value(page, "paused") is True, "space belongs to the button that has the focus"


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_a_phone_and_html_in_titles_stays_text(
    open_page: OpenPage, film: str, dark: bool
) -> None:
    page = open_page(phone=True, dark=dark)
    for address in (film, "/c/films/"):
        page.goto(address)
        expect(page.get_by_text(TITLE).first).to_be_visible()
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, address
        light = page.evaluate(
            "parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]) > 127"
        )
        assert light is not dark
    page.goto(film)
    page.get_by_role("button", name="Play").first.tap()
    wait_for_time(page, 0.5)


def test_a_video_that_is_not_ready_shows_how_far_it_is_and_then_plays_by_itself(
    open_page: OpenPage, site: Site
) -> None:
    page = open_page()
    with films.held_back(site.backstage, "videos.finalize"):
        site.backstage.call(films.accept, films.clip(), "coming", title="Coming")
        page.goto("/v/coming/")
        page.wait_for_function("() => document.querySelector('progress[aria-label=\"480p\"]')?.value === 100")
        assert page.evaluate("document.querySelector('progress').value") < 100
        assert page.locator("video").count() == 0
    wait_for_time(page, 0.5)


def test_a_video_that_failed_says_so_in_a_friendly_way(open_page: OpenPage, site: Site) -> None:
    with films.held_back(site.backstage, "videos.probe"):
        video_id = site.backstage.call(films.accept, films.clip(), "broken", title="Broken")
        site.backstage.call(films.break_source, video_id)
    page = open_page()
    page.goto("/v/broken/")
    expect(page.locator("[role=status][data-state=failed]")).to_be_visible()


def test_a_browser_without_hls_is_told_what_is_missing(open_page: OpenPage, film: str) -> None:
    page = open_page()
    page.add_init_script("HTMLMediaElement.prototype.canPlayType = () => ''")
    page.route("**/hls.min.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.goto(film)
    expect(page.get_by_role("alert")).to_contain_text("hls.js")


def test_a_channel_without_videos_says_so(open_page: OpenPage, site: Site) -> None:
    site.backstage.call(_empty_channel)
    page = open_page()
    page.goto("/c/nothing/")
    expect(page.locator("[data-state=empty]")).to_be_visible()


def _empty_channel() -> None:
    from tests.support.videos.video_site import channel

    channel("nothing")
