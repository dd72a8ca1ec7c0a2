"""The site in a browser: somebody logs in, every page opens, a video plays, and nothing complains."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import films
from tests.support.browser.fixtures import PASSWORD, OpenPage
from tests.support.browser.site import Site


def test_somebody_logs_in(open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/admin/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(
        page.get_by_role("link", name="Log out").or_(page.get_by_role("button", name="Log out"))
    ).to_be_visible()


def test_every_page_that_the_index_links_opens(page: Page) -> None:
    page.goto("/admin/")
    links = page.locator("#content-main th a").evaluate_all("links => links.map(link => link.href)")
    assert len(links) > 5
    for address in links:
        response = page.goto(address)
        assert response is not None
        assert response.ok, address


@pytest.mark.usefixtures("hls_js")
def test_an_uploaded_video_is_encoded_and_plays(open_page: OpenPage, site: Site) -> None:
    site.backstage.call(films.publish, films.clip(), "smoke")
    page = open_page()
    page.goto("/v/smoke/?player=hls.js")
    page.get_by_role("button", name="Play").first.click()
    page.wait_for_function("() => document.querySelector('video')?.currentTime > 1")
