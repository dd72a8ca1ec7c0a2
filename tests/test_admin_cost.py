"""What the pages of jobs, workers and types cost: a few queries, by index and bounded, however many rows there are."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs import enqueue_many, lifecycle, workflow
from jobs.admin import job_type, search, window, worker_page
from jobs.dashboard import depth
from jobs.models import Status, Worker
from tests.actors import new_worker
from tests.admin_pages import client_of
from tests.full_tables import fill_tables
from tests.plans import nodes, plan_of

pytestmark = pytest.mark.django_db

JOBS = 40_000
WINDOW = 1_000
"""As short, beside these tables, as the real one beside a million rows."""
MOST_QUERIES = 15

postgresql_only = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="reads PostgreSQL's plans")
sqlite_only = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="reads SQLite's plans")


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


def queries_of(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(address, headers={"accept": "application/json"})
        assert answer.status_code == 200, address
    return [query["sql"] for query in queries.captured_queries]


def test_a_page_takes_few_queries(viewer: Client, pages: list[str]) -> None:
    counts = {address: len(queries_of(viewer, address)) for address in pages}
    assert {address: count for address, count in counts.items() if count > MOST_QUERIES} == {}


def about_jobs(statements: list[str]) -> list[str]:
    return [
        sql
        for sql in statements
        if "jobs_job" in sql.replace("jobs_jobtypestate", "") or "jobs_attempt" in sql
    ]


@postgresql_only
def test_on_postgresql_no_page_scans_a_table_or_reads_more_than_its_window(
    viewer: Client, pages: list[str]
) -> None:
    read = [
        (address, sql, node)
        for address in pages
        for sql in about_jobs(queries_of(viewer, address))
        for node in nodes(plan_of(sql))
    ]
    assert len(read) > 100
    tables = ("jobs_job", "jobs_attempt")
    scans = [
        (address, sql)
        for address, sql, node in read
        if node["Node Type"] == "Seq Scan" and node.get("Relation Name") in tables
    ]
    assert scans == []
    looked_at = [
        (address, sql, (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
        for address, sql, node in read
        if node.get("Relation Name") in tables
    ]
    assert [entry for entry in looked_at if entry[2] > 3 * WINDOW] == []


@sqlite_only
def test_on_sqlite_no_page_scans_the_jobs(viewer: Client, pages: list[str]) -> None:
    steps = []
    for address in pages:
        for sql in about_jobs(queries_of(viewer, address)):
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {sql.replace('%', '%%')}")
                steps += [(address, sql, row[3]) for row in cursor.fetchall()]
    assert len(steps) > 100
    scans = [step for step in steps if step[2] in ("SCAN jobs_job", "SCAN jobs_attempt")]
    assert scans == []
