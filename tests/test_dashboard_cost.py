"""What the dashboard costs: a few queries, each by an index and bounded, however long the queue and its past."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import enqueue_many, lifecycle, statistics
from jobs.dashboard import depth
from jobs.dashboard.topics import dashboard_topics
from tests.actors import new_worker
from tests.full_tables import fill_tables
from tests.plans import nodes, plan_of

pytestmark = pytest.mark.django_db

PAGES = ("/admin/jobs/dashboard/", "/admin/")
JOBS = 40_000
MOST_QUERIES = 15

postgresql_only = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="reads PostgreSQL's plans")
sqlite_only = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="reads SQLite's plans")


@pytest.fixture
def viewer() -> Client:
    """Somebody whose permissions have to be read, too."""
    user = User.objects.create_user("clerk", is_staff=True)
    models = ("job", "worker", "jobtypestate")
    names = [f"{verb}_{model}" for verb in ("view", "change") for model in models]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    return client


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


def queries_of(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    return [query["sql"] for query in queries.captured_queries]


def queries_of_the_stream() -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        for topic in dashboard_topics("admin", workers=True, types=True):
            topic.read()
    return [query["sql"] for query in queries.captured_queries]


@pytest.mark.usefixtures("_full_tables")
@pytest.mark.parametrize("address", PAGES)
def test_a_page_takes_few_queries(viewer: Client, address: str) -> None:
    assert len(queries_of(viewer, address)) <= MOST_QUERIES


def selects(statements: list[str]) -> list[str]:
    return [sql for sql in statements if "jobs_job" in sql or "jobs_attempt" in sql]


@postgresql_only
@pytest.mark.usefixtures("_full_tables")
def test_on_postgresql_no_query_scans_the_jobs_or_reads_more_than_it_shows(viewer: Client) -> None:
    asked = [*(sql for address in PAGES for sql in queries_of(viewer, address)), *queries_of_the_stream()]
    read = [(sql, node) for sql in selects(asked) for node in nodes(plan_of(sql))]
    assert len(read) > 30
    tables = ("jobs_job", "jobs_attempt")
    scans = [
        sql for sql, node in read if node["Node Type"] == "Seq Scan" and node.get("Relation Name") in tables
    ]
    assert scans == []
    looked_at = {
        sql: (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for sql, node in read
        if node.get("Relation Name") in tables
    }
    assert {sql: rows for sql, rows in looked_at.items() if rows > JOBS / 10} == {}


@sqlite_only
@pytest.mark.usefixtures("_full_tables")
def test_on_sqlite_no_query_scans_the_jobs(viewer: Client) -> None:
    asked = [*(sql for address in PAGES for sql in queries_of(viewer, address)), *queries_of_the_stream()]
    steps = []
    for sql in selects(asked):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql.replace('%', '%%')}")
            steps += [row[3] for row in cursor.fetchall()]
    assert len(steps) > 30
    names = ("jobs_job", "jobs_attempt", "j", "job")
    assert [
        step for step in steps if step.startswith("SCAN") and step.split()[1] in names and "INDEX" not in step
    ] == []
