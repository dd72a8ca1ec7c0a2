"""The wheel in a site of somebody else, on the oldest and on the newest supported Django.

Everything is installed from the package index into an environment of its own.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from django.db import connection

from tests.sites.test_foreign_site import JOB_TYPES, TESTS
from tests.sites.test_foreign_site import wheel as wheel
from tests.support import ROOT
from tests.support.sites import interpreters
from tests.support.sites.foreign_site import ForeignSite
from tests.support.videos.video_site import clip

URLS = """
from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("jobs.api.urls")),
    path("api/", include("videos.api.urls")),
    path("", include("jobs.urls")),
    path("", include("videos.urls")),
]
"""

SETTINGS = """
INSTALLED_APPS += ["jobs", "videos", "podcasts"]
VIDEOS = {"ROOT": str(BASE_DIR / "films"), "SEGMENT_SECONDS": 1, "PRESET": "ultrafast", "TRANSCRIBER": "off"}
"""

VISIT = """
import json
import sys

import django
from django.contrib.auth.models import User
from django.test import Client

from jobs.models import Job
from videos.models import Video

video = Video.objects.get()
client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.create_superuser("chief", password="chief"))
addresses = [
    "/admin/", "/admin/jobs/dashboard/", "/admin/jobs/job/", f"/admin/videos/video/{video.pk}/change/", "/health",
    "/api/health", "/api/openapi.json", "/api/queue", f"/v/{video.slug}/", f"/v/{video.slug}/g1/master.m3u8",
]
print(json.dumps({
    "versions": [f"{sys.version_info[0]}.{sys.version_info[1]}", django.__version__],
    "answers": {address: client.get(address).status_code for address in addresses},
    "statuses": sorted(set(Job.objects.values_list("status", flat=True))),
    "video": video.status,
}))
"""


def newest_django() -> str:
    """That of requirements.txt; there is one line for each Python that has another newest."""
    found: list[str] = re.findall(r"^Django==([\d.]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    return max(found, key=lambda version: [int(part) for part in version.split(".")])


ENDS = [
    (interpreters.OLDEST, "Django~=5.2.0", "5.2"),
    (interpreters.NEWEST, f"Django=={newest_django()}", ""),
]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="what differs is not the database: once is enough")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("python", "django", "is_version"), ENDS, ids=["oldest", "newest"])
def test_the_wheel_works_on_the_oldest_and_the_newest_django(
    python: str, django: str, is_version: str, wheel: Path, tmp_path: Path
) -> None:
    interpreter = interpreters.find(python)
    if interpreter is None:
        pytest.skip(f"needs Python {python}")
    site = ForeignSite(tmp_path, wheel, python=interpreter, packages=[django])
    site.manage("startapp", "podcasts")
    site.write("podcasts/job_types.py", JOB_TYPES)
    site.write("podcasts/tests.py", TESTS)
    site.write("somebodys/urls.py", URLS)
    site.add_to_settings(SETTINGS)
    shutil.copy(clip(50), site.folder / "clip.mp4")

    assert "no issues" in site.manage("check").stdout
    site.manage("migrate", "--verbosity=0")
    assert site.manage("makemigrations", "--check", "--dry-run").returncode == 0
    site.manage("enqueue", "podcast_import", '{"podcast_id": "7"}')
    site.manage("addvideo", "clip.mp4")
    site.manage("runworker", "--until-empty")
    told = json.loads(site.manage("shell", "--verbosity=0", "-c", VISIT).stdout)
    assert told["versions"][0] == python
    assert told["versions"][1].startswith(is_version or newest_django())
    assert set(told["answers"].values()) == {200}, told["answers"]
    assert (told["statuses"], told["video"]) == (["completed"], "ready")
    assert site.manage("check_invariants").returncode == 0
    assert "OK" in site.manage("test", "podcasts").stderr
