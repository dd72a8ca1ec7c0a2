"""`manage.py addvideo FILE --wait`, typed into a terminal: bars, and an address that plays."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support import ROOT
from tests.support.browser import films
from tests.support.browser.fixtures import OpenPage
from tests.support.browser.site import Site

PATIENCE = 100.0


class Terminal:
    """What a command shows to whoever has typed it."""

    def __init__(self, screen: int) -> None:
        self._screen = screen
        self.shown = ""

    def wait_for(self, pattern: str) -> str:
        """Read until this has been shown; its first group."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.shown)):
            ready, _, _ = select.select([self._screen], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{pattern!r} was not shown: {self.shown}"
            try:
                self.shown += os.read(self._screen, 65536).decode()
            except OSError:  # the command has ended
                pytest.fail(f"{pattern!r} was not shown: {self.shown}")
        return found[1]


@contextmanager
def typed(site: Site, *arguments: str) -> Iterator[Terminal]:
    """The command ends well, or the test does not."""
    screen, inside = pty.openpty()
    command = [sys.executable, "manage.py", *arguments]
    with subprocess.Popen(command, env=site.environment, cwd=ROOT, stdout=inside, stderr=inside) as process:
        os.close(inside)
        try:
            yield Terminal(screen)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            os.close(screen)


def test_the_address_that_addvideo_ends_with_plays_across_a_join(site: Site, open_page: OpenPage) -> None:
    with typed(
        site, "addvideo", str(films.clip()), "--slug=typed", "--wait", f"--site={site.url}"
    ) as terminal:
        with films.held_back(site.backstage, "videos.finalize"):
            for quality in ("480p", "360p"):
                assert terminal.wait_for(rf"{quality} (█+)░* +[\d.]+ %  5/5")
        address = terminal.wait_for(r"clip-10 .*?(http\S+)")
    page = open_page()
    page.goto(address)
    page.get_by_role("button", name="Play").first.click()
    page.wait_for_function(
        "at => document.querySelector('video').currentTime > at", arg=films.CHUNK_SECONDS + 1
    )
