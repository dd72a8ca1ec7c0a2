"""The pages of the admin in a Django site of somebody else, from the wheel and without the pipeline."""

from __future__ import annotations

import json

from tests.sites.test_foreign_site import JOB_TYPES
from tests.sites.test_foreign_site import site as site
from tests.sites.test_foreign_site import wheel as wheel
from tests.support.sites.foreign_site import ForeignSite

VISIT = """
import json
import re

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.test import Client

from jobs.models import Job, Worker

STATIC = ("live.js", "once.js", "admin.css", "sprocket.css")
User.objects.create_superuser("chief", password="chief")
client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.get())
job, worker = Job.objects.get(type="podcast_import"), Worker.objects.get()
at = "/admin/jobs/"
addresses = [
    f"{at}job/", f"{at}job/?status__exact=completed", f"{at}job/?q={job.pk}", f"{at}job/{job.pk}/change/",
    f"{at}worker/", f"{at}worker/{worker.pk}/change/", f"{at}jobtypestate/", f"{at}dashboard/", "/admin/",
]
pages = {address: client.get(address) for address in addresses}
page = pages[f"{at}job/{job.pk}/change/"].content.decode()
seen = re.search('name="seen" value="([^"]+)"', page)[1]
client.post(f"{at}job/{job.pk}/act/", {"verb": "discard", "seen": seen})
client.post(f"{at}jobtypestate/act/", {"name": "podcast_import", "verb": "pause"})
print(json.dumps({
    "answers": {address: page.status_code for address, page in pages.items()},
    "job": page,
    "missing": [name for name in STATIC if not finders.find(f"jobs/{name}")],
    "left": Job.objects.filter(pk=job.pk).count(),
    "log": list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True)),
}))
"""


def test_the_pages_work_on_a_site_that_has_the_queue_alone(site: ForeignSite) -> None:
    site.manage("startapp", "podcasts")
    site.write("podcasts/job_types.py", JOB_TYPES)
    site.add_to_settings('INSTALLED_APPS += ["jobs", "podcasts"]')
    site.manage("migrate", "--verbosity=0")
    site.manage("enqueue", "podcast_import", '{"podcast_id": "7"}')
    site.manage("runworker", "--until-empty")
    told = json.loads(site.manage("shell", "--verbosity=0", "-c", VISIT).stdout)
    assert set(told["answers"].values()) == {200}, told["answers"]
    assert "podcast_announce" in told["job"], "its child"
    assert told["missing"] == []
    assert (told["left"], told["log"]) == (0, ["discarded", "paused"])
