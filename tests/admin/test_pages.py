"""The queue in the Django admin: pages load, texts stay texts, looking changes nothing, links stay on their site."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs import enqueue, lifecycle, worker_keys, workflow
from jobs.lifecycle import FailureReport, ProgressReport
from jobs.models import Job, JobTypeState, Worker, WorkerKind
from tests.conftest import Declare
from tests.support.pages.admin_pages import EVIL, JOBS, ask, failed_job, text_of
from tests.support.queue.actors import claim_one, new_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def evil_pages(declare: Declare) -> list[str]:
    """Every page, of rows with HTML wherever somebody else decides on a text."""
    declare(EVIL)
    worker = new_worker(
        name=EVIL, capabilities=[EVIL], version="<b>1</b>", host=f"{EVIL}|b|n", pid=1, kind=WorkerKind.REMOTE
    )
    worker_keys.issue(worker, actor=EVIL)
    job = enqueue(EVIL, {"text": EVIL}, unique_key=EVIL, submitter=EVIL, correlation_id=EVIL)
    lease = claim_one(worker).lease
    lifecycle.report_progress([ProgressReport(lease, 40, EVIL)])
    lifecycle.fail(lease, FailureReport(EVIL, EVIL, EVIL, permanent=True))
    lifecycle.retry(job.pk, actor=EVIL)
    lease = claim_one(worker).lease
    lifecycle.complete(lease, {"result": EVIL})
    with workflow(EVIL) as flow:
        first = flow.add(EVIL)
        second = flow.add(EVIL, after=[first])
    lifecycle.report_progress([ProgressReport(claim_one(worker).lease, 40, EVIL)])
    JobTypeState.objects.get_or_create(name=EVIL)
    return [
        JOBS,
        f"{JOBS}?q={EVIL}",
        f"{JOBS}?type={EVIL}&workflow={EVIL}",
        *(reverse("admin:jobs_job_change", args=[row.pk]) for row in (job, first, second)),
        reverse("admin:jobs_job_history", args=[job.pk]),
        "/admin/jobs/worker/",
        reverse("admin:jobs_worker_change", args=[worker.pk]),
        reverse("admin:jobs_worker_history", args=[worker.pk]),
        "/admin/jobs/jobtypestate/",
    ]


def test_every_page_loads_and_html_stays_text(admin_client: Client, evil_pages: list[str]) -> None:
    for address in evil_pages:
        page = admin_client.get(address)
        assert page.status_code == 200, address
        assert "&lt;script&gt;alert(1)" in text_of(page), address
        assert "<script>alert(1)" not in text_of(page), address


def test_html_stays_text_in_streams_and_in_questions(admin_client: Client, evil_pages: list[str]) -> None:
    job = Job.objects.filter(status="processing").get()
    worker = Worker.objects.get()
    for stream in (
        reverse("admin:jobs_job_live", args=[job.pk]),
        reverse("admin:jobs_worker_live", args=[worker.pk]),
        reverse("admin:jobs_worker_list_live"),
    ):
        state = admin_client.get(stream, headers={"accept": "application/json"}).json()
        pieces = [value["html"] for value in state.values() if isinstance(value, dict)]
        assert any("&lt;script&gt;alert(1)" in piece for piece in pieces), stream
        assert not [piece for piece in pieces if "<script>" in piece], stream
    assert "<script>alert(1)" not in text_of(ask(admin_client, "cancel", job))


def test_a_page_changes_nothing(admin_client: Client, evil_pages: list[str]) -> None:
    addresses = [
        *evil_pages,
        f"{JOBS}?action=cancel&_selected_action={Job.objects.latest('pk').pk}&confirmed=yes",
    ]
    admin_client.get(addresses[0])  # whoever logs in gets a session
    for address in addresses:
        with CaptureQueriesContext(connection) as queries:
            admin_client.get(address)
        written = [
            query["sql"]
            for query in queries.captured_queries
            if query["sql"].lstrip().upper().startswith(("UPDATE", "INSERT", "DELETE"))
        ]
        assert written == [], address


def test_nobody_adds_changes_or_deletes_a_job_by_form(admin_client: Client) -> None:
    job = failed_job()
    assert admin_client.get("/admin/jobs/job/add/").status_code == 403
    assert admin_client.post(f"/admin/jobs/job/{job.pk}/delete/", {"post": "yes"}).status_code == 403
    before = Job.objects.filter(pk=job.pk).values().get()
    admin_client.post(
        f"/admin/jobs/job/{job.pk}/change/", {"status": "completed", "priority": 1, "type": "x"}
    )
    assert Job.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.urls("tests.support.pages.own_admin")
def test_on_somebodys_own_admin_site_every_link_stays_on_it(admin_client: Client) -> None:
    worker = new_worker(kind=WorkerKind.REMOTE)
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.report_progress([ProgressReport(claim_one(worker).lease, 40, "x")])
    office = "/office/jobs"
    pages = [
        admin_client.get(f"{office}/{address}")
        for address in (
            "job/",
            *(f"job/{job.pk}/change/" for job in (first, second)),
            "worker/",
            f"worker/{worker.pk}/change/",
            "jobtypestate/",
        )
    ]
    asked = {"action": "cancel", "_selected_action": second.pk, "select_across": "0"}
    pages.append(admin_client.post(f"{office}/job/", asked))
    for page in pages:
        assert page.status_code == 200
        assert "The office" in text_of(page)
        links = re.findall(r'(?:href|action|data-live-source)="(/[^"]*)"', text_of(page))
        to_the_site = "/"
        strays = [link for link in links if not link.startswith(("/office/", "/static/"))]
        assert set(strays) <= {to_the_site}
    stream = admin_client.get(f"{office}/worker/live/", headers={"accept": "application/json"})
    assert f"/office/jobs/job/{first.pk}/change/" in text_of(stream)
    done = admin_client.post(f"{office}/worker/{worker.pk}/act/", {"verb": "disable"})
    assert done["Location"] == f"{office}/worker/{worker.pk}/change/"
