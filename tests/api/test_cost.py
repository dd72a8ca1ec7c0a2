"""What requests of workers cost: a fixed, small number of statements."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.conftest import Declare
from tests.support.remote.remote_client import REMOTE, RemoteClient, enqueue_remote, new_remote

pytestmark = pytest.mark.django_db

TRANSACTION = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT")


@pytest.fixture
def far(declare: Declare) -> RemoteClient:
    declare(REMOTE, remote=True)
    far = new_remote(concurrency=100)
    enqueue_remote()
    far.claim()  # and holds it from now on
    return far


def statements_of(action: Any) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        action()
    return [query["sql"] for query in queries.captured_queries if not query["sql"].startswith(TRANSACTION)]


def test_a_claim_takes_as_many_statements_for_fifty_jobs_as_for_one(far: RemoteClient) -> None:
    for _ in range(60):
        enqueue_remote()
    one = statements_of(lambda: far.claim(1))
    many = statements_of(lambda: far.claim(50))
    assert len(one) == len(many) == (9 if connection.vendor == "postgresql" else 10), "\n".join(one)


def test_a_claim_without_jobs_takes_a_few_reads(far: RemoteClient) -> None:
    idle = statements_of(lambda: far.claim(5))
    assert len(idle) == 3, "\n".join(idle)
    assert not [sql for sql in idle if not sql.strip().startswith(("SELECT", "WITH"))]


@pytest.mark.parametrize(
    ("verb", "statements"), [("progress", 2), ("complete", 5), ("fail", 6), ("release", 6)]
)
def test_a_report_takes_a_few_statements(far: RemoteClient, verb: str, statements: int) -> None:
    enqueue_remote()
    job = far.claim_one()
    found = statements_of(lambda: far.report(verb, job))
    assert len(found) == statements, "\n".join(found)


def test_a_heartbeat_takes_a_few_statements_however_many_jobs_run(far: RemoteClient) -> None:
    for _ in range(60):
        enqueue_remote()
    jobs = far.claim(60)
    running = [{"job_id": job["job_id"], "token": job["token"]} for job in jobs]
    found = statements_of(lambda: far.heartbeat("busy", running=running))
    assert len(found) == 6, "\n".join(found)
