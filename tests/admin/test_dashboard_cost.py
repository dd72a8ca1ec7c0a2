"""What the dashboard costs: a few queries, each by an index and bounded, however long the queue and its past."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import database, enqueue_many, lifecycle, statistics
from jobs.dashboard import depth
from jobs.dashboard.topics import dashboard_topics
from jobs.models import Breaker, SitePresence
from tests.support.pages.admin_pages import client_of
from tests.support.queue.actors import new_worker
from tests.support.queue.breakers import open_breaker
from tests.support.queue.full_tables import fill_tables
from tests.support.queue.plans import MOST_QUERIES, about_jobs, jobs_read, queries_of

pytestmark = pytest.mark.django_db

PAGES = ("/admin/jobs/dashboard/", "/admin/")
JOBS = 40_000


@pytest.fixture
def viewer() -> Client:
    """Somebody whose permissions have to be read, too."""
    models = ("job", "worker", "jobtypestate", "breaker")
    return client_of(*(f"{verb}_{model}" for verb in ("view", "change") for model in models))


@pytest.fixture
def _full_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    fill_tables(JOBS)
    enqueue_many("tests.noop", [{}] * 20, priority=-5)
    lifecycle.claim(new_worker(), 20)
    monkeypatch.setattr(statistics, "SETTLED_AFTER", 0)
    monkeypatch.setattr(
        depth, "COUNTED", 1_000
    )  # as short, beside these tables, as the real bound beside a million
    statistics.count_minutes()
    open_breaker("payments")
    open_breaker("mail", state="half-open", retry_at=None)
    assert all(map(database.has_table, (Breaker, SitePresence))), "which a process asks once"


def queries_of_the_stream() -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        for topic in dashboard_topics("admin", workers=True, types=True):
            topic.read()
    return [query["sql"] for query in queries.captured_queries]


@pytest.mark.usefixtures("_full_tables")
@pytest.mark.parametrize("address", PAGES)
def test_a_page_takes_few_queries(viewer: Client, address: str) -> None:
    assert len(queries_of(viewer, address)) <= MOST_QUERIES


@pytest.mark.usefixtures("_full_tables")
def test_no_query_scans_the_jobs_or_reads_more_than_it_shows(viewer: Client) -> None:
    asked = [*(sql for address in PAGES for sql in queries_of(viewer, address)), *queries_of_the_stream()]
    read = {sql: jobs_read(sql) for sql in about_jobs(asked)}
    assert len(read) > 5
    assert [sql for sql, how in read.items() if how.scans] == []
    assert [sql for sql, how in read.items() if how.rows > JOBS / 10] == []
