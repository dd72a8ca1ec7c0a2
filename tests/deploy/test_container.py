"""The image and the compose file, for real: videos through a worker's death and another's drain.

It builds an image and needs the base images, so it runs where somebody asks for it: SPROCKET_CONTAINERS=1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from tests.support.processes import wait_until
from tests.support.sites.containers import ENGINE, HOST, Site
from tests.support.videos.video_site import clip

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


def add_video(site: Site, name: str) -> None:
    """A minute: two chunks, long enough to be interrupted."""
    site.engine("cp", str(clip(1500, size=(1280, 720))), f"{site.name('web')}:/tmp/{name}.mp4")
    site.manage("addvideo", f"/tmp/{name}.mp4")


def test_videos_are_published_although_a_worker_dies_and_another_drains(site: Site) -> None:
    wait_until(lambda: site.succeeds("exec", site.name("web"), "python", "-m", "project.probe"))
    workers = {site.start("worker", 1), site.start("worker", 2)}
    wait_until(lambda: site.status()["workers"] == 2, interval=1)

    add_video(site, "film")
    # One worker may take every chunk, so the one that dies is one that has some.
    victim = wait_until(lambda: site.runs("videos.encode"))[0]
    site.engine("kill", "--signal", "KILL", victim)
    (survivor,) = workers - {victim}
    # A database that has just been started is given two minutes before it counts as proof that a session is gone.
    wait_until(lambda: site.status()["depth"] == 0, timeout=600, interval=2)
    interrupted = [ran for ran in site.attempts("videos.encode").values() if ran[0] == (victim, "lost")]
    assert interrupted, "it died in the middle of a chunk"
    assert all(ran[1:] == [(survivor, "completed")] for ran in interrupted), interrupted
    assert [ran[-1] for ran in site.attempts("videos.finalize").values()] == [(survivor, "completed")]
    site.manage("check_invariants")  # fails if a rule is broken
    assert site.status()["workers"] == 1, "the dead one does not count"

    status, playlist = ask(site, "/v/film/g1/master.m3u8")
    assert status == 200
    assert playlist.startswith(b"#EXTM3U")
    assert b"/v/film/" in ask(site, "/")[1]
    assert ask(site, "/static/videos/pages.css")[0] == 200
    assert b'"redis": true' in ask(site, "/health")[1]

    # Between two numbers it would give itself back when it is asked to: this one is in the middle of its only one.
    site.manage("enqueue", "demo.count", '{"to": 1, "pause": 60}')
    wait_until(lambda: site.runs("demo.count") == [survivor])
    add_video(site, "sequel")
    wait_until(lambda: site.runs("videos.encode") == [survivor])
    site.engine("stop", "--time", "150", survivor)
    assert '"code": "draining"' in site.logs(survivor)
    assert site.exit_code(survivor) == 0, "it was not killed"
    assert list(site.attempts("demo.count").values()) == [[(survivor, "completed")]], "it has finished"
    left = site.status()
    assert left["workers"] == 0, "it has said goodbye"
    assert left["processing"] == 0, "it has given back what would have taken long"
    assert left["depth"] > 0

    successor = site.start("worker", 3)
    wait_until(lambda: site.status()["depth"] == 0, timeout=600, interval=2)
    outcomes = [ran for encode in site.attempts("videos.encode").values() for ran in encode]
    assert {outcome for container, outcome in outcomes if container != victim} <= {"completed", "released"}
    assert (successor, "completed") in [ran[-1] for ran in site.attempts("videos.finalize").values()]
    site.manage("check_invariants")
    assert ask(site, "/v/sequel/g1/master.m3u8")[0] == 200
