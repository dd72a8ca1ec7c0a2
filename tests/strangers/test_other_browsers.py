"""A video plays in Firefox (hls.js) and in WebKit (native HLS, as in Safari), where they are installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import films, other_browsers
from tests.support.browser.other_browsers import Window, wait_for
from tests.support.browser.site import Site

ENGINES = {"firefox": "hls.js", "webkit": "native"}
VIDEO = "document.querySelector('video')"


@pytest.fixture(params=ENGINES)
def window(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Window]:
    if request.param == "firefox":
        request.getfixturevalue("hls_js")
        if not other_browsers.find("firefox-esr", "firefox"):
            pytest.skip("no Firefox here: apt-get install firefox-esr")
        with other_browsers.firefox(tmp_path) as firefox:
            yield firefox
    else:
        if not (other_browsers.find("WebKitWebDriver") and other_browsers.find("xvfb-run")):
            pytest.skip("no WebKit here: apt-get install webkit2gtk-driver gstreamer1.0-plugins-bad xvfb")
        with other_browsers.webkit() as webkit:
            yield webkit


def test_a_video_plays_across_its_chunks(window: Window, site: Site, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["window"]
    site.backstage.call(films.publish, films.clip(), f"film-{name}", title=f"For {name}")
    window.open(f"{site.url}/v/film-{name}/?player={ENGINES[name]}")
    wait_for(window, f"{VIDEO} !== null")
    assert window.evaluate("document.querySelector('[data-player]').dataset.engine") == ENGINES[name]
    # Without sound a video may play that nobody has clicked on.
    window.evaluate(f"void Object.assign({VIDEO}, {{loop: true, muted: true}}).play()")
    wait_for(window, f"{VIDEO}.currentTime > {films.CHUNK_SECONDS + 1}")
    assert window.evaluate(f"{VIDEO}.duration") == pytest.approx(films.SECONDS, abs=0.3)
