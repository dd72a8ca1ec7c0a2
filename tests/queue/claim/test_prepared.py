"""Hot statements are prepared where that is safe: not behind poolers, and never with a plan that reads the table."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from jobs import enqueue, enqueue_many, lifecycle, prepared
from jobs.models import Job
from tests.support.queue.actors import new_worker

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's prepared statements"),
]


def ask(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def prepared_since(number: int = 0) -> int:
    return int(ask("SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql")) - number


def scans() -> int:
    return int(ask("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'jobs_job'"))


@pytest.fixture(autouse=True)
def _nothing_prepared_before() -> None:
    """The connection lives longer than a test."""
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    connection.connection._prepared.clear()


@pytest.fixture
def claims() -> Iterator[None]:
    """This connection as that of a worker's main loop."""
    prepared.read_by_index(connection)
    yield
    prepared._reads_by_index.clear()
    with connection.cursor() as cursor:
        cursor.execute("RESET enable_seqscan; RESET enable_bitmapscan")


def test_single_jobs_share_one_prepared_insert() -> None:
    enqueue("tests.noop", n=0)
    before = prepared_since()
    for n in range(10):
        enqueue("tests.noop", n=n)
    assert before > 0
    assert prepared_since(before) == 0


@pytest.mark.parametrize("pooled", ["JOBS", "DATABASES"])
def test_nothing_is_prepared_behind_a_transaction_pooler(
    pooled: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pooled == "JOBS":
        settings.JOBS = {"SESSION_FEATURES": False}
    else:
        monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    worker = new_worker()
    prepared.read_by_index(connection)
    enqueue("tests.noop")
    assert len(lifecycle.claim(worker, 1)) == 1
    assert prepared_since() == 0
    assert ask("SHOW enable_seqscan") == "on"


def test_only_the_connection_that_claims_prepares_its_reads() -> None:
    worker = new_worker()
    enqueue_many("tests.noop", [{}] * 30)
    before = prepared_since()
    for _ in range(10):
        assert len(lifecycle.claim(worker, 1)) == 1
    assert prepared_since(before) == 0


@pytest.mark.usefixtures("claims")
def test_claims_of_any_size_share_their_prepared_statements() -> None:
    worker = new_worker()
    enqueue_many("tests.noop", [{}] * 100)
    assert len(lifecycle.claim(worker, 1)) == 1
    before = prepared_since()
    for n in range(1, 11):
        assert len(lifecycle.claim(worker, n)) == n
    assert prepared_since(before) == 0


@pytest.mark.usefixtures("claims")
def test_a_plan_made_for_a_small_table_is_right_for_a_large_one() -> None:
    """The server keeps a plan that it made for a few rows; then there are thousands, and no new statistics."""
    worker = new_worker()
    enqueue_many("tests.noop", [{}] * 20)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job")
    for _ in range(10):  # from the sixth time on, the plan may be one for any values
        assert len(lifecycle.claim(worker, 1)) == 1
    assert ask("SELECT sum(generic_plans) FROM pg_prepared_statements") > 0
    enqueue_many("tests.noop", [{}] * 5_000)
    before = scans()
    assert len(lifecycle.claim(worker, 100)) == 100
    assert scans() == before
    assert Job.objects.pending().count() == 4_910
