"""What a claim costs: neither a backlog, nor paused types, nor jobs of tomorrow make it dearer."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs import HIGH, LOW, enqueue_many, lifecycle
from jobs.models import JobTypeState, Worker
from tests.conftest import Declare
from tests.support.queue.actors import new_worker
from tests.support.queue.plans import nodes, plan_of

pytestmark = pytest.mark.django_db

postgresql_only = pytest.mark.skipif(connection.vendor != "postgresql", reason="reads PostgreSQL's plans")
sqlite_only = pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's plans")


def statements_of_a_claim(worker: Worker, n: int = 10) -> list[str]:
    """What a claim asks of the jobs' table; the claim itself is undone."""
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        assert len(lifecycle.claim(worker, n)) == n
        transaction.set_rollback(True)
    statements = [query["sql"] for query in queries.captured_queries if "jobs_job" in query["sql"]]
    assert statements
    return statements


def pages_touched_by_a_claim(worker: Worker) -> int:
    plans = [plan_of(sql) for sql in statements_of_a_claim(worker)]
    return sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans)


def analyze() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("REINDEX TABLE jobs_job")  # earlier tests leave dead entries behind
        cursor.execute("ANALYZE jobs_job")


def fill(count: int) -> None:
    for priority in (HIGH, 5, LOW):
        enqueue_many("tests.noop", [{}] * (count // 3), priority=priority)
    enqueue_many("tests.noop", [{}] * count, delay=86400)
    analyze()


@postgresql_only
def test_on_postgresql_a_claim_reads_jobs_by_their_indexes_only() -> None:
    fill(20_000)
    plans = [plan_of(sql) for sql in statements_of_a_claim(new_worker())]
    read = [node for plan in plans for node in nodes(plan)]
    assert [n for n in read if n["Node Type"] == "Seq Scan" and n.get("Relation Name") == "jobs_job"] == []
    assert any(node.get("Index Name") == "jobs_claimable" for node in read)


@postgresql_only
def test_on_postgresql_no_part_of_a_claim_reads_more_rows_than_it_looks_for() -> None:
    fill(20_000)
    plans = [plan_of(sql) for sql in statements_of_a_claim(new_worker())]
    rows = [node["Actual Rows"] * node["Actual Loops"] for plan in plans for node in nodes(plan)]
    assert max(rows) < 500


@sqlite_only
def test_on_sqlite_a_claim_reads_jobs_by_their_indexes_only() -> None:
    fill(3_000)
    steps = []
    for sql in statements_of_a_claim(new_worker()):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql.replace('%', '%%')}")
            steps += [row[3] for row in cursor.fetchall()]
    assert [step for step in steps if step in ("SCAN jobs_job", "SCAN j")] == []
    assert any("jobs_claimable" in step for step in steps)


@postgresql_only
def test_a_paused_backlog_in_front_costs_a_claim_nothing(declare: Declare) -> None:
    declare("here.paused")
    JobTypeState.objects.create(name="here.paused", paused=True)
    enqueue_many("tests.noop", [{}] * 2_000)
    worker = new_worker()
    enqueue_many("here.paused", [{}] * 10, priority=HIGH)
    analyze()
    before = pages_touched_by_a_claim(worker)
    enqueue_many("here.paused", [{}] * 20_000, priority=HIGH)
    analyze()
    assert pages_touched_by_a_claim(worker) <= before * 1.5


@postgresql_only
def test_a_saturated_backlog_in_front_costs_a_claim_nothing(declare: Declare) -> None:
    declare("here.limited", concurrency=1)
    enqueue_many("tests.noop", [{}] * 2_000)
    enqueue_many("here.limited", [{}] * 10, priority=HIGH)
    worker = new_worker()
    lifecycle.claim(worker, 1, types=["here.limited"])
    analyze()
    before = pages_touched_by_a_claim(worker)
    enqueue_many("here.limited", [{}] * 20_000, priority=HIGH)
    analyze()
    assert pages_touched_by_a_claim(worker) <= before * 1.5


@postgresql_only
def test_jobs_of_tomorrow_cost_a_claim_nothing() -> None:
    enqueue_many("tests.noop", [{}] * 2_000)
    worker = new_worker()
    analyze()
    before = pages_touched_by_a_claim(worker)
    enqueue_many("tests.noop", [{}] * 20_000, priority=HIGH, delay=86400)
    analyze()
    assert pages_touched_by_a_claim(worker) <= before * 1.5


def queries_of_a_claim(worker: Worker, n: int) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert len(lifecycle.claim(worker, n)) == n
    return len(queries)


@pytest.mark.parametrize(
    "policy", [{}, {"concurrency": 100}, {"prefers": "gpu"}], ids=["free", "limited", "gpu"]
)
def test_a_claim_takes_as_many_statements_for_fifty_jobs_as_for_one(
    declare: Declare, policy: dict[str, Any]
) -> None:
    declare("here.counted", **policy)
    worker = new_worker()
    enqueue_many("here.counted", [{}] * 60)
    lifecycle.claim(worker, 1)
    assert queries_of_a_claim(worker, 50) == queries_of_a_claim(worker, 1) < 15


def test_an_idle_claim_is_one_statement() -> None:
    worker = new_worker()
    assert queries_of_a_claim(worker, 0) == 0
    with CaptureQueriesContext(connection) as queries:
        assert lifecycle.claim(worker, 50) == []
    assert len(queries) == 1
