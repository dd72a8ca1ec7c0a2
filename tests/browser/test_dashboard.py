"""The dashboard in a browser: it moves by itself, says when it cannot, and types are paused by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.browser.backstage import Backstage
from tests.support.browser.fixtures import OpenPage
from tests.support.browser.misfortunes import fail_far_away

DASHBOARD = "/admin/jobs/dashboard/"
CONTROLLED = "demo.flaky"
COUNTED = 6000


# -- backstage -------------------------------------------------------------------------------------------------------


def _start_counting() -> str:
    from jobs import HIGH, enqueue

    return str(enqueue("demo.count", to=COUNTED, pause=0.1, priority=HIGH).id)


def _cancel(job_id: str) -> None:
    from jobs import lifecycle

    lifecycle.cancel([job_id])


def _is_paused(name: str) -> bool:
    from jobs.models import JobTypeState

    return JobTypeState.objects.filter(name=name, paused=True).exists()


@pytest.fixture
def start_counting(backstage: Backstage) -> Iterator[Callable[[], str]]:
    """Each call starts a job that says how far it is, for longer than any machine needs for a test; its id."""
    started: list[str] = []

    def start() -> str:
        started.append(backstage.call(_start_counting))
        return started[-1]

    yield start
    for job_id in started:
        backstage.call(_cancel, job_id)


@pytest.fixture
def counting(start_counting: Callable[[], str]) -> str:
    return start_counting()


# -- it moves --------------------------------------------------------------------------------------------------------


def test_a_running_job_appears_its_bar_moves_and_it_goes_by_itself(
    page: Page, backstage: Backstage, start_counting: Callable[[], str]
) -> None:
    page.goto(DASHBOARD)
    expect(page.locator("[data-live-status]")).to_have_attribute("data-state", "live")
    job_id = start_counting()
    row = page.locator(f'[data-live="running"] tr[data-key="{job_id}"]')
    expect(row).to_be_visible()
    bar = row.locator("progress")
    page.wait_for_function("bar => bar.value > 0", arg=bar.element_handle())
    element, before = bar.element_handle(), bar.evaluate("bar => bar.value")
    page.wait_for_function("([bar, before]) => bar.value > before && bar.isConnected", arg=[element, before])
    expect(row).to_contain_text(re.compile(rf"\d+ of {COUNTED}"))
    backstage.call(_cancel, job_id)
    expect(row).to_have_count(0)


def test_the_first_page_of_the_admin_moves_too(page: Page, counting: str) -> None:
    page.goto("/admin/")
    expect(page.locator("[data-live-status]")).to_have_attribute("data-state", "live")
    running = page.locator('[data-live="count.running"]')
    expect(running).not_to_have_text("0")
    page.get_by_role("link", name="Open the dashboard").click()
    expect(page).to_have_url(re.compile(f"{DASHBOARD}$"))


# -- the connection --------------------------------------------------------------------------------------------------


def test_a_lost_connection_is_told_and_comes_back(
    page: Page, counting: str, forgive: Callable[[str], None]
) -> None:
    forgive("net::ERR_")
    is_away = False

    def answer(route: Route) -> None:
        route.abort("connectionrefused") if is_away else route.continue_()

    page.route("**/live/**", answer)
    page.goto(DASHBOARD)
    status = page.locator("[data-live-status]")
    expect(status).to_have_attribute("data-state", "live")
    is_away = True
    page.evaluate("dispatchEvent(new Event('pagehide'))")  # lets go of the stream, as a sleeping machine does
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(status).to_have_attribute("data-state", "lost")
    is_away = False
    expect(status).to_have_attribute("data-state", "live")


def test_without_a_stream_the_page_asks_now_and_then(
    page: Page, start_counting: Callable[[], str], forgive: Callable[[str], None]
) -> None:
    forgive("503")

    def refuse_streams(route: Route) -> None:
        if "event-stream" in route.request.headers.get("accept", ""):
            route.fulfill(status=503, body="{}")
        else:
            route.continue_()

    page.route("**/live/**", refuse_streams)
    page.goto(DASHBOARD)
    expect(page.locator("[data-live-status]")).to_have_attribute("data-state", "polling")
    job_id = start_counting()
    expect(page.locator(f'[data-live="running"] tr[data-key="{job_id}"]')).to_be_visible()


def test_who_is_no_longer_signed_in_is_told(page: Page, forgive: Callable[[str], None]) -> None:
    forgive("401")
    page.goto(DASHBOARD)
    status = page.locator("[data-live-status]")
    expect(status).to_have_attribute("data-state", "live")
    page.context.clear_cookies()
    page.evaluate("dispatchEvent(new Event('pagehide'))")
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(status).to_have_attribute("data-state", "refused")


# -- what people do --------------------------------------------------------------------------------------------------


def test_a_type_is_paused_and_resumed_by_keyboard(page: Page, backstage: Backstage) -> None:
    page.goto(DASHBOARD)
    pause = page.get_by_role("button", name=f"Pause {CONTROLLED}")
    pause.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist .success", has_text=CONTROLLED)).to_be_visible()
    assert backstage.call(_is_paused, CONTROLLED)
    expect(pause).to_be_hidden()
    resume = page.get_by_role("button", name=f"Resume {CONTROLLED}")
    resume.focus()
    page.keyboard.press("Space")
    expect(page.locator(".messagelist .success", has_text=CONTROLLED)).to_be_visible()
    assert not backstage.call(_is_paused, CONTROLLED)


def test_a_pause_by_somebody_else_is_seen(page: Page, open_page: OpenPage, backstage: Backstage) -> None:
    page.goto(DASHBOARD)
    other = open_page(user="admin")
    other.goto(DASHBOARD)
    page.get_by_role("button", name=f"Pause {CONTROLLED}").click()
    expect(other.get_by_role("button", name=f"Resume {CONTROLLED}")).to_be_visible()
    other.get_by_role("button", name=f"Resume {CONTROLLED}").click()
    expect(page.get_by_role("button", name=f"Pause {CONTROLLED}")).to_be_visible()
    assert not backstage.call(_is_paused, CONTROLLED)


def test_a_limit_is_set_and_taken_back(page: Page) -> None:
    page.goto(DASHBOARD)
    field = page.get_by_role("spinbutton", name=f"Limit of {CONTROLLED}")
    field.fill("3")
    field.press("Enter")
    expect(
        page.locator(".messagelist .success", has_text=re.compile(rf"{CONTROLLED}.*\b3\b"))
    ).to_be_visible()
    expect(page.locator(f'[data-live="type.{CONTROLLED}.load"]')).to_have_text("0 of 3")
    field.fill("")
    field.press("Enter")
    load = page.locator(f'[data-live="type.{CONTROLLED}.load"]')
    expect(load).not_to_have_text(re.compile(r"\b3\b"))
    expect(page.locator(".messagelist .success", has_text=CONTROLLED)).to_be_visible()


# -- how it looks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.usefixtures("counting")
def test_on_a_phone_nothing_sticks_out(open_page: OpenPage, backstage: Backstage, dark: bool) -> None:
    backstage.call(fail_far_away)
    page = open_page(user="admin", phone=True, dark=dark)
    for address in (DASHBOARD, "/admin/"):
        page.goto(address)
        expect(page.locator("[data-live-status]")).to_have_attribute("data-state", "live")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address


def test_it_works_where_inline_scripts_and_styles_are_forbidden(open_page: OpenPage, counting: str) -> None:
    page = open_page(user="admin")

    def forbid(route: Route) -> None:
        answer = route.fetch()
        policy = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"
        route.fulfill(response=answer, headers={**answer.headers, "content-security-policy": policy})

    page.route(f"**{DASHBOARD}", forbid)
    page.goto(DASHBOARD)
    expect(page.locator("[data-live-status]")).to_have_attribute("data-state", "live")
    expect(page.locator(f'[data-live="running"] tr[data-key="{counting}"]')).to_be_visible()
