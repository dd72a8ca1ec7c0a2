"""check_invariants reads each table once, also when the database believes that the tables are empty."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import QuerySet

from jobs import database, enqueue_many, lifecycle
from jobs.invariants import RULES, broken_rules
from tests.support.queue.actors import new_worker

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(
        "connection.vendor != 'postgresql'", reason="SQLite keeps no statistics unless told to"
    ),
]

OURS = {text: check for text, check in RULES.items() if check.__module__ == "jobs.invariants"}


def nested_loop() -> str:
    return str(database.fetch("SHOW enable_nestloop")[0][0])


def test_a_queue_that_has_grown_since_its_last_analyze_is_joined_without_nested_loops() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job, jobs_attempt, jobs_event, jobs_prerequisite")
    enqueue_many("tests.noop", [{}] * 50)
    lifecycle.complete_many([(claimed.lease, None) for claimed in lifecycle.claim(new_worker(), 25)])
    queries = {text: subjects for text, check in OURS.items() if isinstance(subjects := check(), QuerySet)}
    assert queries
    with database.joins_in_one_pass():
        plans = {text: query.explain() for text, query in queries.items()}
    assert [text for text, plan in plans.items() if "Nested Loop" in plan] == []


def test_the_callers_transaction_gets_its_planner_back() -> None:
    assert nested_loop() == "on"
    assert broken_rules() == []
    assert nested_loop() == "on"


def test_the_planner_is_also_given_back_when_a_rule_raises() -> None:
    def stumble() -> None:
        with database.joins_in_one_pass():
            assert nested_loop() == "off"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stumble()
    assert nested_loop() == "on"
