"""Nothing has to be scrolled sideways: not the page, nor a list on it, whose last columns nobody would find."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import films
from tests.support.browser.fixtures import OpenPage
from tests.support.browser.misfortunes import fail_far_away
from tests.support.browser.site import Site

JOB_LISTS = ("/admin/jobs/job/", "/admin/jobs/worker/", "/admin/jobs/schedule/")
VIDEO_LISTS = ("/admin/videos/video/", "/admin/videos/channel/")


def too_wide(page: Page) -> Any:
    return page.evaluate(
        """() => [document.documentElement, ...document.querySelectorAll(".results")]
            .filter((part) => part.scrollWidth > part.clientWidth)
            .map((part) => `${part.className || part.tagName}: ${part.scrollWidth} > ${part.clientWidth}`)"""
    )


@pytest.fixture(scope="module")
def full_lists(site: Site) -> None:
    site.backstage.call(fail_far_away)
    site.backstage.call(
        films.publish, films.clip(), "wide", title="Wide " + "word " * 20, channel="a-channel-of-a-long-name"
    )


@pytest.mark.usefixtures("full_lists")
@pytest.mark.parametrize("phone", [False, True], ids=["1280", "390"])
def test_no_list_is_wider_than_the_window(open_page: OpenPage, phone: bool) -> None:
    page = open_page(user="admin", phone=phone)
    for address in (*JOB_LISTS, *VIDEO_LISTS):
        page.goto(address)
        if not phone and page.locator("#changelist-filter").count():
            expect(page.locator("#changelist-filter")).to_be_visible()
        assert too_wide(page) == [], address
