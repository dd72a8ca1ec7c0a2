"""Jobs, workers and job types in the admin, by hand in the browser: what people see moves, what they press happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.support.browser.fixtures import OpenPage
from tests.support.browser.misfortunes import fail_far_away
from tests.support.browser.site import WORKER_NAME, Site


def said(page: Page) -> Any:
    """The message at the top that says that it was done."""
    return page.locator(".messagelist .success")


def badge(page: Page) -> Any:
    return page.locator(".sp-head .sp-badge").first


def open_job(page: Page, job_id: str) -> None:
    page.goto(f"/admin/jobs/job/{job_id}/change/")
    expect(page.locator("[data-live-status]")).to_have_attribute("data-state", "live")


def test_a_running_job_moves_and_stops_when_it_is_cancelled(page: Page, site: Site, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    slowly = {"log": str(log), "gate": str(gate), "by": 0.005}  # minutes, however long the page takes
    job_id = site.backstage.call(_enqueue, "work.progress", slowly)
    open_job(page, job_id)
    expect(badge(page)).to_have_attribute("data-status", "processing")
    bar = "document.querySelector('.sp-progress progress').value"
    page.wait_for_function(f"() => {bar} > 0")
    before = page.evaluate(bar)
    page.wait_for_function(f"() => {bar} > {before}")
    expect(page.get_by_role("button", name="Retry")).to_be_hidden()
    page.get_by_role("button", name="Cancel").click()
    expect(said(page)).to_be_visible()
    expect(badge(page)).to_have_attribute("data-status", "cancelled")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    site.backstage.call(_wait_for_text, str(log), "stopped")


def test_a_failed_job_is_retried_by_keyboard_and_the_page_follows(
    page: Page, site: Site, tmp_path: Path
) -> None:
    job_id = site.backstage.call(_enqueue, "work.fail", {"log": str(tmp_path / "log")}, 1)
    open_job(page, job_id)
    expect(badge(page)).to_have_attribute("data-status", "failed")
    expect(page.locator(".sp-attempts > li")).to_have_count(1)
    page.get_by_text("Traceback", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".sp-attempts pre")).to_contain_text("RuntimeError: attempt 1 fails")
    page.get_by_role("button", name="Retry").focus()
    page.keyboard.press("Enter")
    expect(said(page)).to_be_visible()
    expect(page.locator(".sp-attempts > li")).to_have_count(2)
    expect(badge(page)).to_have_attribute("data-status", "failed")
    expect(page.locator(".sp-timeline")).to_contain_text(re.compile(r"\badmin\b"))


def test_a_type_is_paused_and_resumed(page: Page, site: Site, tmp_path: Path) -> None:
    page.goto("/admin/jobs/jobtypestate/")
    row = page.locator("tr", has=page.get_by_text("work.record", exact=True))
    row.get_by_role("button", name="Pause").click()
    expect(said(page)).to_contain_text("work.record")
    job_id = site.backstage.call(_enqueue, "work.record", {"log": str(tmp_path / "log")})
    expect(row.locator("[data-label=Ready]")).to_have_text("1")
    open_job(page, job_id)
    expect(page.locator(".sp-explanation")).to_contain_text("work.record")
    expect(badge(page)).to_have_attribute("data-status", "pending")
    other = page.context.new_page()
    other.goto("/admin/jobs/jobtypestate/")
    other.locator("tr", has=other.get_by_text("work.record", exact=True)).get_by_role(
        "button", name="Resume"
    ).click()
    expect(badge(page)).to_have_attribute("data-status", "completed")


def test_a_limit_is_set(page: Page) -> None:
    page.goto("/admin/jobs/jobtypestate/")
    field = page.get_by_label("how many work.make may run at once")
    field.fill("2")
    field.press("Enter")
    expect(said(page)).to_contain_text(re.compile(r"work\.make.*\b2\b"))
    expect(field).to_have_value("2")


def test_a_worker_is_disabled_and_enabled(page: Page) -> None:
    page.goto("/admin/jobs/worker/")
    page.get_by_role("link", name=WORKER_NAME).click()
    page.get_by_role("button", name="Disable").click()
    expect(said(page)).to_be_visible()
    expect(badge(page)).to_have_attribute("data-status", "disabled")
    page.get_by_role("button", name="Enable").click()
    expect(said(page)).to_be_visible()
    expect(badge(page)).to_have_attribute("data-status", "idle")


def test_a_key_is_issued_shown_once_and_revoked(page: Page) -> None:
    page.goto("/admin/jobs/worker/add/")
    page.get_by_label("Name").fill("attic")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Issue a key").click()
    key = page.locator("#new-key").inner_text().strip()
    assert len(key) == 43
    expect(page.locator("#new-key-command")).to_contain_text(f"SPROCKET_KEY={key} sprocket-worker --server")
    page.goto(page.url.replace("issue-key", "change"))
    expect(page.get_by_text(key)).to_have_count(0)
    expect(page.get_by_text(f"{key[:8]}…")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    expect(said(page)).to_be_visible()


def test_all_that_match_are_cancelled_after_a_question(page: Page, site: Site) -> None:
    site.backstage.call(_enqueue_delayed, 70)
    page.goto("/admin/jobs/job/?priority=33&status__exact=waiting")
    page.locator("#action-toggle").check()
    page.get_by_role("button", name="Select all that match (70)").click()
    page.get_by_label("Action:").select_option("Cancel")
    page.get_by_role("button", name="Go").click()
    expect(page.locator(".sp-ask .sp-lead")).to_contain_text("70")
    page.get_by_role("button", name="Cancel 70 jobs").click()
    expect(said(page)).to_contain_text("70")
    expect(page.locator("#result_list tbody tr")).to_have_count(0)


def test_the_list_follows_its_jobs(page: Page, site: Site, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    job_id = site.backstage.call(_enqueue, "work.progress", {"log": str(log), "gate": str(gate)})
    page.goto(f"/admin/jobs/job/?q={job_id}")
    row = page.locator("#result_list tbody tr")
    expect(row.locator(".sp-badge")).to_have_attribute("data-status", "processing")
    gate.touch()
    expect(row.locator(".sp-badge")).to_have_attribute("data-status", "completed")


def test_on_a_phone_in_the_dark_nothing_sticks_out(open_page: OpenPage, site: Site) -> None:
    page = open_page(user="admin", phone=True, dark=True)
    planned = site.backstage.call(_workflow)
    failed, worker = site.backstage.call(fail_far_away)
    for address in (
        "/admin/jobs/job/",
        f"/admin/jobs/job/?q={failed}",
        f"/admin/jobs/job/{planned}/change/",
        f"/admin/jobs/job/{failed}/change/",
        "/admin/jobs/worker/",
        f"/admin/jobs/worker/{worker}/change/",
        "/admin/jobs/jobtypestate/",
    ):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address


# -- backstage -------------------------------------------------------------------------------------------------------


def _enqueue(type_name: str, payload: dict[str, Any], max_attempts: int | None = None) -> str:
    from jobs import enqueue

    return str(enqueue(type_name, payload, max_attempts=max_attempts).pk)


def _enqueue_delayed(count: int) -> None:
    from jobs import enqueue_many

    enqueue_many("tests.noop", [{}] * count, delay=3600, priority=33)


def _workflow() -> str:
    from jobs import workflow

    with workflow("a film with a rather long name") as flow:
        first = flow.add("tests.noop", delay=3600)
        many = [flow.add("work.record", log=str(n), after=[first]) for n in range(30)]
        return str(flow.add("tests.noop", after=many).pk)


def _wait_for_text(path: str, text: str) -> None:
    from tests.support.processes import wait_until

    wait_until(lambda: text in Path(path).read_text())
