"""Any Django site can use the queue alone: the wheel, one line in INSTALLED_APPS, and a job_types.py."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from tests.support import ROOT
from tests.support.sites.foreign_site import ForeignSite, build_wheel

JOB_TYPES = """
from pathlib import Path

from django.contrib.auth.models import Group

from jobs import JobContext, job_type


@job_type("podcast_import", max_attempts=5)
def import_podcast(job: JobContext, podcast_id: str) -> dict[str, str]:
    job.progress(50, step="half way")
    Group.objects.create(name=podcast_id)
    job.add("podcast_announce", podcast_id=podcast_id, key="announce")
    return {"imported": podcast_id}


@job_type("podcast_announce", isolate=True)
def announce(job: JobContext, podcast_id: str) -> None:
    with Path("announced.txt").open("a") as file:
        file.write(podcast_id + "\\n")
"""

TESTS = """
from django.contrib.auth.models import Group
from django.test import TestCase

from jobs import enqueue
from jobs.testing import assert_enqueued, run_due_jobs


class ImportTest(TestCase):
    def test_a_podcast_is_imported_and_announced(self):
        enqueue("podcast_import", podcast_id="from a test")
        assert_enqueued("podcast_import", podcast_id="from a test")
        self.assertEqual([run.type for run in run_due_jobs(limit=1)], ["podcast_import"])
        self.assertTrue(Group.objects.filter(name="from a test").exists())
        assert_enqueued("podcast_announce", podcast_id="from a test")
"""

QUESTION = """
import json, sys
import jobs
from jobs.models import Job
print(json.dumps({
    "home": jobs.__file__,
    "path": sys.path,
    "jobs": {job.type + " " + job.payload["podcast_id"]: [job.status, job.result] for job in Job.objects.all()},
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def site(wheel: Path, tmp_path: Path, transactional_db: None) -> Iterator[ForeignSite]:
    """On SQLite, with exactly the settings that startproject writes; on PostgreSQL, with a database of its own."""
    site = ForeignSite(tmp_path, wheel)
    if connection.vendor == "sqlite":
        yield site
        return
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS somebodys_site")
        cursor.execute("CREATE DATABASE somebodys_site")
    try:
        site.use_database({**connection.settings_dict, "NAME": "somebodys_site"})
        yield site
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP DATABASE somebodys_site WITH (FORCE)")


def test_a_new_site_migrates_enqueues_and_runs_job_types_of_its_own(site: ForeignSite) -> None:
    site.manage("startapp", "podcasts")
    site.write("podcasts/job_types.py", JOB_TYPES)
    site.write("podcasts/tests.py", TESTS)
    site.add_to_settings('INSTALLED_APPS += ["jobs", "podcasts"]')

    assert "no issues" in site.manage("check").stdout
    site.manage("migrate", "--verbosity=0")
    assert site.manage("makemigrations", "--check", "--dry-run").returncode == 0

    site.manage("enqueue", "podcast_import", '{"podcast_id": "7"}')
    site.manage("shell", "-c", "from jobs import enqueue; enqueue('podcast_import', podcast_id='8')")
    refused = site.manage("enqueue", "podcast_export", check=False)
    assert refused.returncode == 1
    assert "jobs.alert, podcast_announce, podcast_import" in refused.stderr

    site.manage("runworker", "--until-empty")
    assert sorted((site.folder / "announced.txt").read_text().split()) == ["7", "8"]
    told = json.loads(site.manage("shell", "--verbosity=0", "-c", QUESTION).stdout)
    assert told["jobs"] == {
        "podcast_import 7": ["completed", {"imported": "7"}],
        "podcast_import 8": ["completed", {"imported": "8"}],
        "podcast_announce 7": ["completed", None],
        "podcast_announce 8": ["completed", None],
    }
    assert told["home"].startswith(str(site.python.parent.parent)), "it used the wheel"
    assert str(ROOT) not in told["path"]

    assert json.loads(site.manage("jobs", "status", "--json").stdout)["depth"] == 0
    assert site.manage("check_invariants").returncode == 0
    assert "OK" in site.manage("test", "podcasts").stderr


def test_the_wheel_carries_everything_of_both_apps_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"jobs", "videos"}
    for app in ("jobs", "videos"):
        here = {str(path.relative_to(ROOT)) for path in (ROOT / app).rglob("*") if path.is_file()}
        assert {name for name in here if "__pycache__" not in name} == {
            name for name in names if name.startswith(f"{app}/")
        }
        assert f"{app}/py.typed" in names
