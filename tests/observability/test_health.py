"""Is the queue alive: what load balancers and people are told."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from jobs import enqueue, enqueue_many
from tests.support.queue.actors import new_worker

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["/health", "/api/worker/health"])
def address(request: Any) -> str:
    return str(request.param)


def test_a_queue_with_workers_is_fine(address: str) -> None:
    new_worker()
    enqueue("tests.noop")
    answer = Client().get(address)
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "reasons": [],
        "database": True,
        "active_workers": 1,
        "pending_jobs": 1,
        "redis": None,
    }
    assert answer["Cache-Control"] == "no-store"


def test_jobs_that_nobody_runs_are_said_but_no_reason_to_send_visitors_elsewhere(address: str) -> None:
    new_worker(disabled=True)
    new_worker(status="offline")
    new_worker(last_heartbeat="2001-01-01T00:00Z")
    enqueue_many("tests.noop", [{}] * 3)
    answer = Client().get(address)
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert (answer.json()["active_workers"], answer.json()["pending_jobs"]) == (0, 3)
    (reason,) = answer.json()["reasons"]
    assert "3" in reason


@pytest.mark.parametrize(("jobs", "told"), [(1, "1 job "), (2, "2 jobs "), (5, "5 or more jobs ")])
def test_one_job_is_one_and_a_bounded_count_says_so(
    address: str, monkeypatch: pytest.MonkeyPatch, jobs: int, told: str
) -> None:
    monkeypatch.setattr("jobs.health.COUNTED", 5)
    enqueue_many("tests.noop", [{}] * jobs)
    (reason,) = Client().get(address).json()["reasons"]
    assert told in reason


def test_an_empty_queue_without_workers_is_fine(address: str) -> None:
    assert Client().get(address).json()["status"] == "ok"


def test_without_its_database_the_queue_is_failing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OperationalError("connection refused at 10.0.0.7")

    with monkeypatch.context() as away:
        away.setattr("jobs.database.fetch", fail)
        answer = Client().get(address)
    assert (answer.status_code, answer.json()["status"], answer.json()["database"]) == (503, "failing", False)
    assert "10.0.0.7" not in answer.content.decode()


def test_it_is_only_asked(address: str) -> None:
    assert Client().post(address).status_code == 405


def test_it_costs_two_statements(address: str, django_assert_num_queries: Any) -> None:
    Client().get(address)  # the first time a process also looks whether the database is migrated
    with django_assert_num_queries(2):
        Client().get(address)
