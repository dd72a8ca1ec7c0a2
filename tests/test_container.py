"""The image and the compose file, for real: a video through a worker's death and another's drain.

It builds an image and needs the base images, so it runs where somebody asks for it: SPROCKET_CONTAINERS=1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from tests.containers import ENGINE, HOST, Site
from tests.support import wait_until
from tests.video_site import clip

pytestmark = [
    pytest.mark.skipif(os.environ.get("SPROCKET_CONTAINERS") != "1", reason="SPROCKET_CONTAINERS=1 runs it"),
    pytest.mark.timeout(1800),
]


@pytest.fixture
def site() -> Iterator[Site]:
    assert ENGINE, "neither podman nor docker is here"
    site = Site()
    site.build()
    try:
        site.up()
        yield site
    finally:
        site.down()


def ask(site: Site, path: str) -> tuple[int, bytes]:
    headers = {"Host": HOST, "X-Forwarded-Proto": "https"}
    with urlopen(Request(site.address() + path, headers=headers), timeout=30) as answer:
        return answer.status, answer.read()


def test_a_video_is_published_although_a_worker_dies_and_another_drains(site: Site) -> None:
    wait_until(lambda: site.succeeds("exec", site.name("web"), "python", "-m", "project.probe"))
    victim, survivor = site.start("worker", 1), site.start("worker", 2)
    wait_until(lambda: site.status()["workers"] == 2, interval=1)

    site.engine("cp", str(clip(1500, size=(1280, 720))), f"{site.name('web')}:/tmp/film.mp4")
    site.manage("addvideo", "/tmp/film.mp4")
    wait_until(lambda: "videos.encode" in str(site.status()), interval=0.5)
    site.engine("kill", "--signal", "KILL", victim)
    # A database that has just been started is given two minutes before it counts as proof that a session is gone.
    wait_until(lambda: site.status()["depth"] == 0, timeout=600, interval=2)
    assert "is published" in site.logs("worker", 1) + site.logs("worker", 2)
    assert "Every rule holds." in site.manage("check_invariants")
    assert site.status()["workers"] == 1, "the dead one does not count"

    status, playlist = ask(site, "/v/film/g1/master.m3u8")
    assert status == 200
    assert playlist.startswith(b"#EXTM3U")
    assert b"/v/film/" in ask(site, "/")[1]
    assert ask(site, "/static/videos/pages.css")[0] == 200
    assert b'"redis": true' in ask(site, "/health")[1]

    site.manage("enqueue", "demo.count", '{"to": 12}')
    wait_until(lambda: site.status()["processing"] == 1, interval=0.5)
    site.engine("stop", "--time", "150", survivor)
    assert "1 job(s) may finish" in site.logs("worker", 2)
    assert site.status()["depth"] == 0, "it has finished"
