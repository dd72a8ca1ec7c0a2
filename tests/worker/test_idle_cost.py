"""What a worker with nothing to do asks of the database: less than two statements a second, tick and sweep together.
`make bench ARGS="--only idle"` watches a real one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import fleet, recovery

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 60  # between two sweeps; a tick each


def statements(action: Callable[[], object]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        action()
    return [query["sql"] for query in captured]


def test_an_idle_minute_costs_less_than_two_statements_a_second() -> None:
    fleet.register(name="idle", job_types=["tests.noop"], capabilities=[], concurrency=1)
    recovery.sweep()  # the first one writes down where the counting begins
    tick = statements(recovery.glance)
    assert len(tick) == 1
    sweep = statements(recovery.sweep)
    heartbeats = 10  # each half minute one, and a look for jobs
    assert len(sweep) > len(recovery.STEPS)
    assert SECONDS * len(tick) + heartbeats + len(sweep) < 2 * SECONDS, sweep
    assert not [sql for sql in sweep if sql.startswith(("SAVEPOINT", "UPDATE"))]
