"""What /metrics costs: a known number of statements, by index and bounded, however long the queue and its past."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import enqueue_many, lifecycle, statistics
from jobs.metrics import depth
from jobs.metrics.readings import read
from tests.support.queue.actors import new_worker
from tests.support.queue.full_tables import fill_tables
from tests.support.queue.plans import about_jobs, jobs_read

pytestmark = pytest.mark.django_db

JOBS = 40_000
STATEMENTS = 7


def statements() -> list[str]:
    read()  # once, so that it is known which tables there are
    with CaptureQueriesContext(connection) as queries:
        read()
    return [query["sql"] for query in queries.captured_queries]


@pytest.fixture
def _full_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SETTLED_AFTER", 0)
    monkeypatch.setattr(
        depth, "COUNTED", 1_000
    )  # as short, beside these tables, as the real bound beside a million
    fill_tables(JOBS)
    enqueue_many("tests.noop", [{}] * 20, priority=-5)
    lifecycle.claim(new_worker(), 20)
    statistics.count_minutes()


@pytest.mark.usefixtures("_full_tables")
def test_it_takes_a_known_number_of_statements() -> None:
    assert len(statements()) == STATEMENTS


def test_their_number_does_not_grow_with_workers_and_types(django_assert_num_queries: Any) -> None:
    for name in ("a", "b", "c"):
        new_worker(name=name)
        enqueue_many("tests.noop", [{}] * 2, priority=ord(name))
    assert len(statements()) == STATEMENTS


@pytest.mark.usefixtures("_full_tables")
def test_none_scans_the_jobs_or_reads_more_than_its_bound() -> None:
    read_by = {sql: jobs_read(sql) for sql in about_jobs(statements())}
    assert len(read_by) == 1
    assert [sql for sql, how in read_by.items() if how.scans] == []
    assert [sql for sql, how in read_by.items() if how.rows > 1_000] == []
