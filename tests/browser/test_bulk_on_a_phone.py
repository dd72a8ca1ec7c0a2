"""Actions on many jobs, on a phone."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.test_jobs_admin import _enqueue_delayed
from tests.support.browser.fixtures import OpenPage
from tests.support.browser.site import Site


def test_all_that_match_can_be_selected(open_page: OpenPage, site: Site) -> None:
    site.backstage.call(_enqueue_delayed, 70)
    page = open_page(user="admin", phone=True)
    page.goto("/admin/jobs/job/?priority=33&status__exact=waiting")
    page.locator("#action-toggle").check()
    page.get_by_role("button", name="Select all that match").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_label("Action:").select_option("Cancel")
    page.get_by_role("button", name="Go").click()
    expect(page.locator(".sp-ask .sp-lead")).to_be_visible()
    page.get_by_role("button", name="Cancel").last.click()
    expect(page.locator(".messagelist .success")).to_be_visible()
    expect(page.locator("#result_list tbody tr")).to_have_count(0)
