"""The queue in a database of its own beside the site's: a router sends it there, and everything follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from tests.sites.test_foreign_site import site as site
from tests.sites.test_foreign_site import wheel as wheel
from tests.support.sites.foreign_site import ForeignSite

ROUTER = """
class QueueRouter:
    def db_for_read(self, model, **hints):
        return "queue" if model._meta.app_label in APPS else None

    db_for_write = db_for_read

    def allow_relation(self, one, other, **hints):
        both = {one._meta.app_label in APPS, other._meta.app_label in APPS}
        return both == {True} or None

    def allow_migrate(self, db, app_label, **hints):
        return (db == "queue") == (app_label in APPS)
"""

JOB_TYPES = """
from django.contrib.auth.models import Group
from django.db import transaction

from jobs import JobContext, job_type


@job_type("podcast_import")
def import_podcast(job: JobContext, name: str) -> str:
    with transaction.atomic():
        Group.objects.create(name=name)
    job.add("podcast_announce", name=name, key="announce")
    return name


@job_type("podcast_announce", isolate=True)
def announce(job: JobContext, name: str) -> int:
    return Group.objects.filter(name=name).count()
"""

QUESTION = """
import json

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import connections, transaction
from django.test import Client

from jobs import enqueue
from jobs.models import Job, Worker


class Undone(Exception):
    pass


try:
    with transaction.atomic(using="queue"):
        enqueue("podcast_import", name="undone")
        raise Undone
except Undone:
    pass

User.objects.create_superuser("chief", password="chief")
client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.get())
job, worker = Job.objects.filter(type="podcast_import").first(), Worker.objects.first()
at = "/admin/jobs/"
addresses = [
    "/admin/", f"{at}job/", f"{at}job/?q={job.pk}", f"{at}job/{job.pk}/change/", f"{at}worker/",
    f"{at}worker/{worker.pk}/change/", f"{at}jobtypestate/", f"{at}dashboard/", "/health",
]
answers = {address: client.get(address).status_code for address in addresses}
paused = client.post(f"{at}jobtypestate/act/", {"name": "podcast_import", "verb": "pause"})
print(json.dumps({
    "answers": answers,
    "paused": paused.status_code,
    "tables": {alias: sorted(connections[alias].introspection.table_names()) for alias in ("default", "queue")},
    "jobs": {job.type: [job.status, job.result] for job in Job.objects.all()},
    "groups": list(Group.objects.values_list("name", flat=True)),
    "log": list(LogEntry.objects.using("default").values_list("change_message", flat=True)),
}))
"""


@contextmanager
def second_database(site: ForeignSite, apps: set[str]) -> Iterator[None]:
    """An alias `queue` with these apps in it."""
    site.write("somebodys/routers.py", f"APPS = {apps!r}\n{ROUTER}")
    site.add_to_settings('DATABASE_ROUTERS = ["somebodys.routers.QueueRouter"]')
    if connection.vendor == "sqlite":
        site.add_to_settings(
            'DATABASES["queue"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "queue.sqlite3"}'
        )
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS somebodys_queue")
        cursor.execute("CREATE DATABASE somebodys_queue")
    try:
        site.add_to_settings('DATABASES["queue"] = {**DATABASES["default"], "NAME": "somebodys_queue"}')
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP DATABASE somebodys_queue WITH (FORCE)")


def test_the_queue_lives_in_a_database_of_its_own(site: ForeignSite) -> None:
    site.manage("startapp", "podcasts")
    site.write("podcasts/job_types.py", JOB_TYPES)
    site.write(
        "somebodys/urls.py",
        "from django.contrib import admin\nfrom django.urls import include, path\n\n"
        'urlpatterns = [path("admin/", admin.site.urls), path("", include("jobs.urls"))]\n',
    )
    site.add_to_settings('INSTALLED_APPS += ["jobs", "podcasts"]')
    with second_database(site, {"jobs"}):
        assert "no issues" in site.manage("check").stdout
        early = site.manage("runworker", "--until-empty", check=False)
        assert early.returncode == 1
        assert "manage.py migrate" in early.stderr
        site.manage("migrate", "--verbosity=0")
        site.manage("migrate", "--database=queue", "--verbosity=0")
        site.manage("enqueue", "podcast_import", '{"name": "seven"}')
        site.manage("runworker", "--until-empty")
        told = json.loads(site.manage("shell", "--verbosity=0", "-c", QUESTION).stdout)
        assert told["jobs"] == {
            "podcast_import": ["completed", "seven"],
            "podcast_announce": ["completed", 1],
        }
        assert told["groups"] == ["seven"]
        assert set(told["answers"].values()) == {200}, told["answers"]
        assert (told["paused"], told["log"]) == (302, ["paused"])
        assert [name for name in told["tables"]["default"] if name.startswith("jobs_")] == []
        assert "jobs_job" in told["tables"]["queue"]
        assert "auth_user" not in told["tables"]["queue"]
        assert site.manage("check_invariants").returncode == 0


def test_videos_and_their_jobs_are_written_together_so_they_live_together(site: ForeignSite) -> None:
    site.add_to_settings('INSTALLED_APPS += ["jobs", "videos"]\nMEDIA_ROOT = BASE_DIR / "media"')
    with second_database(site, {"jobs"}):
        refused = site.manage("check", check=False)
        assert refused.returncode == 1
        assert "videos.E003" in refused.stderr
        site.write("somebodys/routers.py", f"APPS = {{'jobs', 'videos'}}\n{ROUTER}")
        site.manage("check")
        site.manage("migrate", "--verbosity=0")
        site.manage("migrate", "--database=queue", "--verbosity=0")
        site.manage("runworker", "--until-empty")
        assert site.manage("check_invariants").returncode == 0
