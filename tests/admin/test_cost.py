"""What the pages of jobs, workers and types cost: a few queries, by index and bounded, however many rows there are."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobs import enqueue_many, lifecycle, workflow
from jobs.admin import job_type, search, window, worker_page
from jobs.dashboard import depth
from jobs.models import Status, Worker
from tests.support.pages.admin_pages import client_of
from tests.support.queue.actors import new_worker
from tests.support.queue.full_tables import fill_tables
from tests.support.queue.plans import MOST_QUERIES, about_jobs, jobs_read, queries_of

pytestmark = pytest.mark.django_db

JOBS = 40_000
WINDOW = 1_000
"""As short, beside these tables, as the real one beside a million rows."""


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses of everything that people look at, with full tables behind it."""
    monkeypatch.setattr(window.find_window, "__defaults__", (WINDOW,))
    monkeypatch.setattr(depth, "COUNTED", WINDOW)
    monkeypatch.setattr(job_type, "COUNTED", WINDOW)
    monkeypatch.setattr(search, "MOST", WINDOW)
    monkeypatch.setattr(worker_page, "HISTORY_WINDOW", WINDOW)
    fill_tables(JOBS)
    enqueue_many("tests.noop", [{}] * 20, priority=-5, correlation_id="together", unique_key=None)
    lifecycle.claim(new_worker(), 20)
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        flow.add("tests.noop", after=[first])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    middle = f"{JOBS // 2:026d}"
    past = Worker.objects.get(name="of the past")
    jobs = "/admin/jobs/job/"
    queries = [
        "",
        "?p=5",
        *(f"?status__exact={status}" for status in Status.values),
        *(f"?state={state}" for state in window.STATUSES_OF),
        "?type=tests.noop&status__exact=pending",
        "?type=rare",
        "?priority=-5",
        f"?worker={past.pk}",
        "?created=24h",
        "?created=2026-01-01",
        f"?before={middle}",
        f"?status__exact=failed&before={middle}",
        f"?workflow={flow.record.pk}",
        f"?q={middle}",
        f"?q={middle[:20]}",
        "?q=together",
        "?q=nothing-of-the-kind",
        "?q=nothing&status__exact=failed",
    ]
    return [
        *(jobs + query for query in queries),
        *(reverse("admin:jobs_job_change", args=[pk]) for pk in (middle, first.pk)),
        reverse("admin:jobs_job_live", args=[first.pk]),
        "/admin/jobs/worker/",
        reverse("admin:jobs_worker_change", args=[past.pk]),
        "/admin/jobs/jobtypestate/",
    ]


@pytest.fixture
def viewer() -> Client:
    """Somebody whose permissions have to be read, too."""
    models = ("job", "worker", "jobtypestate")
    return client_of(*(f"{verb}_{model}" for verb in ("view", "change") for model in models))


def test_a_page_takes_few_queries(viewer: Client, pages: list[str]) -> None:
    counts = {address: len(queries_of(viewer, address)) for address in pages}
    assert {address: count for address, count in counts.items() if count > MOST_QUERIES} == {}


def test_no_page_scans_a_table_or_reads_more_than_its_window(viewer: Client, pages: list[str]) -> None:
    read = {
        (address, sql): jobs_read(sql) for address in pages for sql in about_jobs(queries_of(viewer, address))
    }
    assert len(read) > 50
    assert [statement for statement, how in read.items() if how.scans] == []
    assert [statement for statement, how in read.items() if how.rows > 3 * WINDOW] == []


def test_a_scan_would_be_noticed(pages: list[str]) -> None:
    all_of_them = jobs_read("SELECT id FROM jobs_job WHERE last_error = 'nothing of the kind'")
    assert all_of_them.scans
    if connection.vendor == "postgresql":
        assert all_of_them.rows >= JOBS
