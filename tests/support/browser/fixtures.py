"""Fixtures of the browser tests: the site once per run, Chromium once per module, a page per test.

    def test_the_list_opens(page: Page) -> None:        a page that somebody with all rights has logged in with
        page.goto("/admin/videos/video/")

A test fails on every error in the page's console and on every exception that a script of the page does not catch;
one that expects such an error says so with `forgive`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.support import ROOT
from tests.support.browser import chromium
from tests.support.browser.backstage import Backstage
from tests.support.browser.site import Site
from tests.support.needs import lacking

PATIENCE_MS = 120_000
"""How long a page may take for anything: a busy machine is no defect."""
DESKTOP = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=390, height=844)

PASSWORD = "only for the tests"

site_key = pytest.StashKey[Site]()

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium_path() -> str:
    return chromium.find() or lacking("BROWSER", chromium.MISSING)


@pytest.fixture(scope="session")
def hls_js() -> None:
    """For tests of what only hls.js can do: `make` installs it where there is npm."""
    if not (ROOT / "vendor" / "hls.js" / "hls.min.js").is_file():
        lacking("BROWSER", "hls.js is not installed; `make test` does that where there is npm")


@pytest.fixture(scope="session")
def site(
    chromium_path: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """The site with a worker; it is the same one for every test, so tests make rows of their own."""
    database = request.config.getoption("--database")
    started = Site(tmp_path_factory.mktemp("site"), database=database)
    request.config.stash[site_key] = started
    started.backstage.call(_create_superuser)
    yield started
    started.close()


@pytest.fixture
def backstage(site: Site) -> Backstage:
    """`backstage.call(function, …)` runs a function of a test module where the site's database is."""
    return site.backstage


# Not for the whole run: while it lives, Django refuses to use a database in this thread.
@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium_path, args=list(chromium.FLAGS))
        yield launched
        launched.close()


@dataclass
class Complaints:
    """What went wrong in the pages of a test without anybody seeing it."""

    heard: list[str] = field(default_factory=list)
    forgiven: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.heard.append(f"uncaught: {error}"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            where = message.location or {}
            self.heard.append(f"console: {message.text} ({where.get('url', '')})")

    def left(self) -> list[str]:
        return [text for text in self.heard if not any(part in text for part in self.forgiven)]


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    listener = Complaints()
    yield listener
    assert listener.left() == []


@pytest.fixture
def forgive(complaints: Complaints) -> Callable[[str], None]:
    """`forgive("409")`: console errors that contain this are part of the test."""
    return complaints.forgiven.append


@pytest.fixture
def open_page(browser: Browser, site: Site, complaints: Complaints) -> Iterator[OpenPage]:
    """`open_page(user="clerk", width=390, dark=True)` is a page in a window of its own; no user: a stranger's."""
    contexts: list[BrowserContext] = []
    expect.set_options(timeout=PATIENCE_MS)

    def open_page(*, user: str | None = None, phone: bool = False, dark: bool = False, **more: Any) -> Page:
        context = browser.new_context(
            base_url=site.url,
            viewport=PHONE if phone else DESKTOP,
            color_scheme="dark" if dark else "light",
            has_touch=phone,
            reduced_motion="reduce",
            **more,
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        if user is not None:
            name, value = site.backstage.call(_session_of, user)
            context.add_cookies([{"name": name, "value": value, "url": site.url}])
        page = context.new_page()
        complaints.listen(page)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A page in which the superuser is logged in."""
    return open_page(user="admin")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the site printed while a browser test failed."""
    report = yield
    if report.failed and (site := item.config.stash.get(site_key, None)):
        report.sections.append(("output of the site", site.output()))
    return report


# -- backstage -------------------------------------------------------------------------------------------------------


def _create_superuser() -> None:
    from django.contrib.auth.models import User

    User.objects.create_superuser("admin", password=PASSWORD)


def _session_of(username: str) -> tuple[str, str]:
    """A session cookie of somebody, without going through the login form each time."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.get(username=username))
    return settings.SESSION_COOKIE_NAME, client.cookies[settings.SESSION_COOKIE_NAME].value
