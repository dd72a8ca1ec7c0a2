"""Both apps from the wheel in a Django site of somebody else, that has an admin and templates of its own."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.sites.test_foreign_site import site as site
from tests.sites.test_foreign_site import wheel as wheel
from tests.support.sites.foreign_site import ForeignSite
from tests.support.videos.video_site import clip

OFFICE = """
from django.contrib import admin
from django.contrib.admin.apps import AdminConfig


class OfficeSite(admin.AdminSite):
    site_header = "Somebody's office"

    def each_context(self, request):
        return {**super().each_context(request), "motto": "of our own making"}


class OfficeConfig(AdminConfig):
    default_site = "somebodys.office.OfficeSite"
"""

BASE_SITE = """{% extends "admin/base.html" %}
{% block branding %}<div id="site-name">{{ site_header }}, {{ motto }}</div>{% endblock %}
"""

URLS = """
from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("backoffice/", admin.site.urls),
    path("queue/", include("jobs.urls")),
    path("tv/", include("videos.urls")),
]
"""

SETTINGS = """
INSTALLED_APPS[INSTALLED_APPS.index("django.contrib.admin")] = "somebodys.office.OfficeConfig"
INSTALLED_APPS += ["jobs", "videos"]
TEMPLATES[0]["DIRS"] = [BASE_DIR / "templates"]
STATIC_ROOT = BASE_DIR / "collected"
VIDEOS = {"ROOT": str(BASE_DIR / "films"), "SEGMENT_SECONDS": 1, "PRESET": "ultrafast", "TRANSCRIBER": "off"}
"""

UPLOAD = """
import json
from pathlib import Path

from django.contrib.auth.models import User
from django.test import Client

from videos.models import Channel

chief = User.objects.create_superuser("chief", password="chief")
channel = Channel.objects.create(name="Films", slug="films")
client = Client(SERVER_NAME="localhost")
client.force_login(chief)
answer = client.post(
    "/backoffice/videos/video/upload/",
    Path("clip.mp4").read_bytes(),
    content_type="application/octet-stream",
    query_params={"name": "clip.mp4", "title": "A film", "channel": channel.pk},
)
print(json.dumps({"status": answer.status_code, **answer.json()}))
"""

VISIT = """
import json
import re

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from jobs.models import Job, Worker
from videos.models import Channel, Video

client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.get())
video, worker, job = Video.objects.get(), Worker.objects.get(), Job.objects.get(type="videos.finalize")
jobs, videos = "/backoffice/jobs/", "/backoffice/videos/"
addresses = [
    "/backoffice/", f"{jobs}dashboard/", f"{jobs}job/", f"{jobs}job/?q={job.pk}", f"{jobs}job/{job.pk}/change/",
    f"{jobs}worker/", f"{jobs}worker/{worker.pk}/change/", f"{jobs}jobtypestate/",
    f"{videos}video/", f"{videos}video/?q=film", f"{videos}video/add/", f"{videos}video/{video.pk}/change/",
    f"{videos}channel/", f"{videos}transcode/", f"{videos}subtitle/",
    f"/tv/v/{video.slug}/", "/tv/c/films/",
]
streams = [
    f"{jobs}dashboard/live/?dashboard", f"{videos}video/live/?video={video.pk}", f"{videos}video/{video.pk}/live/",
    f"/queue/api/events/?job={job.pk}", f"/tv/v/{video.slug}/status",
]
pages = {address: client.get(address) for address in addresses}
texts = {address: page.content.decode() for address, page in pages.items()}
states = {address: client.get(address, headers={"Accept": "application/json"}) for address in streams}
watch = texts[f"/tv/v/{video.slug}/"]
playlist = client.get(re.search('src="([^"]+master.m3u8)"', watch)[1])
seen = re.search('name="seen" value="([^"]+)"', texts[f"{videos}video/{video.pk}/change/"])[1]
said = client.post(f"{videos}video/{video.pk}/act/", {"verb": "delete", "seen": seen}, follow=True)
print(json.dumps({
    "status": video.status,
    "answers": {address: page.status_code for address, page in {**pages, **states}.items()},
    "ours": [address for address, text in texts.items() if "of our own making" in text],
    "astray": [address for address, text in texts.items() if re.search('="/(admin|v|c|api)/', text)],
    "summary": f'href="{jobs}dashboard/"' in texts["/backoffice/"],
    "linked": sorted({name for text in texts.values() for name in re.findall('="/static/([^"?]+)', text)}),
    "playlist": b"".join(playlist.streaming_content).decode(),
    "said": said.status_code,
    "binned": type(video).objects.filter(pk=video.pk, deleted_at__isnull=False).exists(),
    "log": list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True)),
}))
"""


def imported_by(script: Path) -> set[Path]:
    """The modules that it names, and those that they name."""
    names = re.findall(r'from "(\./[^"]+)"', script.read_text())
    direct = {(script.parent / name).resolve() for name in names}
    return direct.union(*(imported_by(module) for module in direct))


def test_every_page_of_both_apps_works_on_somebodys_own_admin_site(site: ForeignSite) -> None:
    site.write("somebodys/office.py", OFFICE)
    site.write("somebodys/urls.py", URLS)
    site.write("templates/admin/base_site.html", BASE_SITE)
    site.add_to_settings(SETTINGS)
    shutil.copy(clip(50), site.folder / "clip.mp4")

    assert "no issues" in site.manage("check").stdout
    site.manage("migrate", "--verbosity=0")
    uploaded = json.loads(site.manage("shell", "--verbosity=0", "-c", UPLOAD).stdout)
    assert (uploaded["status"], uploaded["title"]) == (201, "A film")
    assert uploaded["admin"] == f"/backoffice/videos/video/{uploaded['id']}/change/"
    site.manage("runworker", "--until-empty")
    site.manage("collectstatic", "--no-input", "--verbosity=0")
    told = json.loads(site.manage("shell", "--verbosity=0", "-c", VISIT).stdout)

    assert told["status"] == "ready"
    assert set(told["answers"].values()) == {200}, told["answers"]
    in_the_admin = [address for address in told["answers"] if address.startswith("/backoffice/")]
    assert set(told["ours"]) == {address for address in in_the_admin if "/live/" not in address}
    assert told["astray"] == [], "links that lead to where another site would have its pages"
    assert told["summary"]
    assert {"jobs/live.js", "jobs/dashboard.css", "videos/upload.js", "videos/watch.js"} <= set(
        told["linked"]
    )
    files = {site.folder / "collected" / name for name in told["linked"]}
    files |= {path for file in files if file.suffix == ".js" for path in imported_by(file)}
    assert site.folder / "collected" / "videos" / "player" / "player.js" in files
    assert [file for file in files if not file.is_file()] == []
    assert told["playlist"].startswith("#EXTM3U")
    assert (told["said"], told["binned"]) == (200, True)
    uploading, deleting = told["log"]
    assert "clip.mp4" in uploading
    assert deleting not in ("", uploading)
