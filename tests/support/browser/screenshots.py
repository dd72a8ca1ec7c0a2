"""Takes the pictures of the pages: `python -m tests.support.browser.screenshots FOLDER`, in light, dark and on a phone.

Not a test: people look at what it makes. docs/images has the best of them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.support.browser import chromium, films
from tests.support.browser.fixtures import DESKTOP, PHONE, _create_superuser, _session_of
from tests.support.browser.showcase import past
from tests.support.browser.site import Site
from tests.support.videos.media_clips import run_ffmpeg, sample_clip

LOOKS = {
    "light": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "has_touch": True, "device_scale_factor": 2},
    "phone-dark": {"viewport": PHONE, "color_scheme": "dark", "has_touch": True, "device_scale_factor": 2},
}

DRAWN = {
    "Mandelbrot, slowly": "mandelbrot=size=1280x720:rate=25:start_scale=0.9:end_scale=0.05",
    "Sierpinski’s carpet": "sierpinski=size=1280x720:rate=25",
    "Game of life": "life=s=320x180:mold=10:ratio=0.1:death_color=#5b2a00:life_color=#ffd166,scale=1280:720",
    "The test picture": "testsrc2=size=1280x720:rate=25",
}


def make_films(folder: Path) -> dict[str, Path]:
    """Something to look at, some seconds each."""
    bunny = folder / "bunny.mp4"
    run_ffmpeg("-stream_loop", "5", "-i", sample_clip("bigbuckbunny.mp4"), "-c", "copy", bunny)
    bikes = folder / "bikes.mp4"
    run_ffmpeg("-i", sample_clip("bikes.mp4"), "-c:v", "libx264", "-preset", "ultrafast", "-crf", "18", bikes)
    made = {"Big Buck Bunny": bunny, "Bikes in the street": bikes}
    for number, (title, drawing) in enumerate(DRAWN.items()):
        made[title] = folder / f"drawn-{number}.mp4"
        run_ffmpeg(
            *("-f", "lavfi", "-i", drawing, "-f", "lavfi", "-i", "sine=frequency=220", "-t", "8"),
            *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", made[title]),
        )
    return made


def arrange(site: Site, folder: Path) -> dict[str, str]:
    """A site that looks as if people used it; the ids of some videos by a short name."""
    call = site.backstage.call
    ids = {}
    for title, path in reversed(make_films(folder).items()):
        ids[title] = call(films.publish, path, slug_of(title), title=title, owner="admin", channel="meadow")
    call(_caption, ids["Big Buck Bunny"])
    call(films.pause, "videos.probe", True)
    broken = call(films.accept, films.clip(4), "holiday", title="Holiday, day 3", channel="meadow")
    call(films.break_source, broken)
    call(films.pause, "videos.probe", False)
    call(films.pause, "videos.thumbnail", True)
    ids["coming"] = call(films.accept, films.clip(), "coming", title="Still in the oven", channel="meadow")
    ids["broken"] = broken
    return ids


def slug_of(title: str) -> str:
    from django.utils.text import slugify

    return slugify(title)


def take(page: Page, address: str, path: Path, *, act: str = "", whole: bool = False) -> None:
    page.goto(address)
    page.wait_for_load_state("load")
    page.wait_for_timeout(700)
    if act == "play":
        page.keyboard.press("c")
        page.keyboard.press("k")
        page.wait_for_function("() => document.querySelector('video').currentTime > 1.5")
        page.keyboard.press("k")
        page.locator(".vp-seekbar").hover(position={"x": 200, "y": 10})
        page.wait_for_timeout(1500)
    elif act == "menu":
        page.get_by_role("button", name="Quality").click()
    elif act == "help":
        page.keyboard.press("?")
    elif act == "upload":
        page.get_by_label("Drop videos here").set_input_files([str(films.clip()), str(_letter(path.parent))])
        page.locator(".v-upload[data-state=refused]").wait_for()
        page.locator(".v-upload[data-state=accepted]").wait_for()
        page.wait_for_timeout(2000)
    elif act == "key":
        page.get_by_role("button", name="Issue a key").click()
        page.locator("#new-key").wait_for()
    elif act == "question":
        page.locator("#action-toggle").check()
        page.get_by_label("Action:").select_option("Cancel")
        page.get_by_role("button", name="Go").click()
        page.get_by_text("going to be cancelled").wait_for()
    page.screenshot(path=path, full_page=whole)


def _letter(folder: Path) -> Path:
    letter = folder / "letter-to-grandma.mp4"
    letter.write_text("Dear grandma, this is no video at all. " * 100)
    return letter


def pages_of(videos: dict[str, str], jobs: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What is taken: by a name, the address and what is done there first."""
    video, job = "/admin/videos/video", "/admin/jobs/job"
    return {
        "first": ("/admin/", ""),
        "dashboard": ("/admin/jobs/dashboard/", ""),
        "jobs": (f"{job}/", ""),
        "job": (f"{job}/{jobs['running']}/change/", ""),
        "job-failed": (f"{job}/{jobs['failed']}/change/", ""),
        "job-planned": (f"{job}/{jobs['planned']}/change/", ""),
        "jobs-question": (f"{job}/?status__exact=waiting", "question"),
        "workers": ("/admin/jobs/worker/", ""),
        "worker": (f"/admin/jobs/worker/{jobs['worker']}/change/", ""),
        "worker-key": (f"/admin/jobs/worker/{jobs['far_worker']}/change/", "key"),
        "types": ("/admin/jobs/jobtypestate/", ""),
        "breakers": ("/admin/jobs/breaker/", ""),
        "schedules": ("/admin/jobs/schedule/", ""),
        "schedule": ("/admin/jobs/schedule/monthly report/change/", ""),
        "schedule-new": ("/admin/jobs/schedule/add/", ""),
        "schedule-of-code": ("/admin/jobs/schedule/shelves/change/", ""),
        "watch": ("/v/big-buck-bunny/", ""),
        "watch-playing": ("/v/big-buck-bunny/", "play"),
        "watch-menu": ("/v/big-buck-bunny/", "menu"),
        "watch-help": ("/v/big-buck-bunny/", "help"),
        "watch-waiting": ("/v/coming/", ""),
        "watch-failed": ("/v/holiday/", ""),
        "channel": ("/c/meadow/", ""),
        "videos": (f"{video}/", ""),
        "video": (f"{video}/{videos['Big Buck Bunny']}/change/", ""),
        "video-encoding": (f"{video}/{videos['coming']}/change/", ""),
        "video-failed": (f"{video}/{videos['broken']}/change/", ""),
        "upload": (f"{video}/add/", "upload"),
        "channels": ("/admin/videos/channel/", ""),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[""], help="pages whose name contains one of these")
    parser.add_argument(
        "--whole", action="store_true", help="pages to their end, not as far as a window shows"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = chromium.find()
    if path is None:
        parser.error(chromium.MISSING)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        site = Site(
            Path(folder),
            database="sqlite",
            settings="tests.support.browser.showcase.settings",
            worker="attic",
        )
        try:
            site.backstage.call(_create_superuser)
            films_made = arrange(site, Path(folder))
            site.start("runworker", "--name=cellar", "--concurrency=2")
            pages = pages_of(films_made, site.backstage.call(past.tell))
            browser = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
            name, value = site.backstage.call(_session_of, "admin")
            for look, settings in LOOKS.items():
                context = browser.new_context(base_url=site.url, **settings)  # type: ignore[arg-type]
                context.add_cookies([{"name": name, "value": value, "url": site.url}])
                page = context.new_page()
                for title, (address, act) in pages.items():
                    if any(part in title for part in options.only):
                        picture = options.folder / f"{title}-{look}.png"
                        take(page, address, picture, act=act, whole=options.whole)
                context.close()
            browser.close()
        finally:
            site.close()


def _caption(video_id: str) -> None:
    from videos import subtitling
    from videos.models import Video

    cues = b"WEBVTT\n\n00:00.000 --> 00:08.000\nOnce upon a time, in a meadow far away...\n"
    subtitling.upload(Video.objects.get(pk=video_id), cues, language="en", label="English")


if __name__ == "__main__":
    main()
