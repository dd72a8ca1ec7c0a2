"""A site with a user model, a default for keys and an admin site of its own: the apps take what they find."""

from __future__ import annotations

import json
import shutil

from tests.sites.test_foreign_site import site as site
from tests.sites.test_foreign_site import wheel as wheel
from tests.support.sites.foreign_site import ForeignSite
from tests.support.videos.video_site import clip

PEOPLE = """
import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models


class People(BaseUserManager):
    def create_superuser(self, email, password):
        person = self.model(email=email, is_staff=True, is_superuser=True)
        person.set_password(password)
        person.save()
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_staff = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    USERNAME_FIELD = "email"
    objects = People()
"""

ADMIN = """
from django.contrib.admin import AdminSite

from jobs.admin.job import JobAdmin
from jobs.admin.job_type import JobTypeStateAdmin
from jobs.admin.worker import WorkerAdmin
from jobs.models import Job, JobTypeState, Worker

backstage = AdminSite(name="backstage")
backstage.register(Job, JobAdmin)
backstage.register(Worker, WorkerAdmin)
backstage.register(JobTypeState, JobTypeStateAdmin)
"""

URLS = """
from django.contrib import admin
from django.urls import include, path

from somebodys.backstage import backstage

urlpatterns = [
    path("admin/", admin.site.urls),
    path("backstage/", backstage.urls),
    path("", include("jobs.urls")),
    path("", include("videos.urls")),
    path("api/", include("jobs.api.urls")),
    path("api/", include("videos.api.urls")),
]
"""

SETTINGS = """
INSTALLED_APPS += ["people", "jobs", "videos"]
AUTH_USER_MODEL = "people.Person"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
VIDEOS = {"ROOT": str(BASE_DIR / "films"), "SEGMENT_SECONDS": 1, "PRESET": "ultrafast", "TRANSCRIBER": "off"}
"""

VISIT = """
import json
import re
from pathlib import Path

from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.test import Client

from jobs.models import Job, Worker
from videos.models import Channel, Video

token = Path("token").read_text().strip()
client, script = Client(SERVER_NAME="localhost"), Client(SERVER_NAME="localhost")
client.force_login(get_user_model().objects.get())
video, worker, job = Video.objects.get(), Worker.objects.get(), Job.objects.get(type="videos.finalize")
pages = [
    f"/{site}/jobs/{page}"
    for site in ("admin", "backstage")
    for page in ("job/", f"job/{job.pk}/change/", "worker/", f"worker/{worker.pk}/change/", "jobtypestate/")
] + ["/admin/jobs/dashboard/", f"/admin/videos/video/{video.pk}/change/", f"/v/{video.slug}/", "/health", "/api/health"]
page = client.get(f"/backstage/jobs/job/{job.pk}/change/").content.decode()
said = client.post("/backstage/jobs/jobtypestate/act/", {"name": "videos.probe", "verb": "pause"})
asked = script.get("/api/jobs", headers={"Authorization": f"Bearer {token}"})
print(json.dumps({
    "answers": {address: client.get(address).status_code for address in pages},
    "astray": re.findall('href="(/admin/jobs/job[^"]*)"', page),
    "paused": [said.status_code, said.headers.get("Location")],
    "script": [asked.status_code, asked.json()],
    "video": video.status,
    "log": list(LogEntry.objects.values_list("user__email", "change_message")),
    "keys": [type(model._meta.pk).__name__ for model in (Channel, LogEntry)],
}))
"""


def test_a_user_model_keys_and_an_admin_site_of_somebodys_own(site: ForeignSite) -> None:
    site.manage("startapp", "people")
    site.write("people/models.py", PEOPLE)
    site.write("somebodys/backstage.py", ADMIN)
    site.write("somebodys/urls.py", URLS)
    site.add_to_settings(SETTINGS)
    shutil.copy(clip(50), site.folder / "clip.mp4")

    site.manage("makemigrations", "people", "--verbosity=0")
    site.manage("check", "--fail-level=WARNING")
    assert site.manage("makemigrations", "--check", "--dry-run").returncode == 0
    site.manage("migrate", "--verbosity=0")
    site.manage(
        "shell",
        "-c",
        "from people.models import Person; Person.objects.create_superuser('ann@example.org', 'ann')",
    )
    site.write("token", site.manage("stafftoken", "ann@example.org").stdout)
    site.manage("addvideo", "clip.mp4")
    site.manage("runworker", "--until-empty")
    told = json.loads(site.manage("shell", "--verbosity=0", "-c", VISIT).stdout)

    assert told["video"] == "ready"
    assert set(told["answers"].values()) == {200}, told["answers"]
    assert told["astray"] == [], "pages of one admin site that lead to another"
    assert told["paused"][0] == 302
    assert told["script"][0] == 200, told["script"]
    assert told["log"] == [["ann@example.org", "paused"]]
    assert told["keys"] == ["BigAutoField", "AutoField"]
