"""What a page asks the database, and how the database answers: plans, with what their execution touched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

MOST_QUERIES = 15
"""Of any page, however full the tables are."""
_JOB_TABLES = ("jobs_job", "jobs_attempt")
_THEIR_NAMES = (*_JOB_TABLES, "j", "job")
"""As statements call them."""


def queries_of(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(address, headers={"accept": "application/json"})
        assert answer.status_code == 200, address
    return [query["sql"] for query in queries.captured_queries]


def about_jobs(statements: Iterable[str]) -> list[str]:
    """Those that read jobs or attempts."""
    return [
        sql
        for sql in statements
        if any(table in sql.replace("jobs_jobtypestate", "") for table in _JOB_TABLES)
    ]


def plan_of(sql: str) -> dict[str, Any]:
    """PostgreSQL's. The statement is executed, and undone."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql.replace('%', '%%')}")
        answer = cursor.fetchone()[0]
        transaction.set_rollback(True)
    plan: dict[str, Any] = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@dataclass(frozen=True)
class JobsRead:
    """How the database gets at jobs and attempts to answer a statement."""

    scans: bool
    """All of them are read."""
    rows: int
    """So many are looked at in one step of the plan, at most. SQLite does not tell."""


def jobs_read(sql: str) -> JobsRead:
    if connection.vendor == "postgresql":
        steps = [node for node in nodes(plan_of(sql)) if node.get("Relation Name") in _JOB_TABLES]
        looked_at = [
            int((step["Actual Rows"] + step.get("Rows Removed by Filter", 0)) * step["Actual Loops"])
            for step in steps
        ]
        return JobsRead(any(step["Node Type"] == "Seq Scan" for step in steps), max(looked_at, default=0))
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql.replace('%', '%%')}")
        told = [row[3] for row in cursor.fetchall()]
    scans = [step for step in told if step.startswith("SCAN") and "INDEX" not in step]
    return JobsRead(any(step.split()[1] in _THEIR_NAMES for step in scans), 0)
