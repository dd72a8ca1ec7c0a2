"""The site in a browser, on each database: log in, every page opens, none complains."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.browser.fixtures import PASSWORD, OpenPage


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
