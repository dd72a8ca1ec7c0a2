"""Code that is there before its migrations: it waits, takes no visitors and no jobs, and begins by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from jobs import enqueue, schema
from tests.conftest import RunManage, StartManage
from tests.support.processes import wait_until
from tests.support.queue.actors import status_of
from tests.support.queue.workers import QUICK

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def newest() -> Iterator[str]:
    """The newest migration of the queue, as if it had not been applied yet."""
    name = sorted(schema._names("jobs"))[-1]
    schema._current.clear()
    MigrationRecorder(connection).record_unapplied("jobs", name)
    yield name
    if ("jobs", name) not in MigrationRecorder(connection).applied_migrations():
        MigrationRecorder(connection).record_applied("jobs", name)
    schema._current.clear()


def test_a_site_that_is_ahead_of_its_database_gets_no_visitors(newest: str) -> None:
    assert schema.missing() == [f"jobs.{newest}"]
    answer = Client().get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "failing")
    (reason,) = answer.json()["reasons"]
    assert "migrate" in reason
    call_command("migrate", "jobs", fake=True, verbosity=0)
    assert Client().get("/health").status_code == 200


def test_a_worker_that_is_ahead_of_its_database_waits_for_it(
    newest: str, start_manage: StartManage, log: str
) -> None:
    job = enqueue("tests.noop")
    worker = start_manage("runworker", env=QUICK)
    wait_until(lambda: f"jobs.{newest}" in worker.read_output())
    assert status_of(job) == "pending"
    call_command("migrate", "jobs", fake=True, verbosity=0)
    wait_until(lambda: status_of(job) == "completed")


@pytest.mark.parametrize("starts_python", [True])
def test_a_worker_in_a_script_says_what_to_do_first(newest: str, run_manage: RunManage) -> None:
    done = run_manage("runworker", "--until-empty", check=False)
    assert done.returncode == 1
    assert f"jobs.{newest}" in done.stderr
    assert "manage.py migrate" in done.stderr


def test_once_it_was_current_nothing_is_asked_any_more(django_assert_num_queries: Any) -> None:
    assert schema.missing() == []
    with django_assert_num_queries(0):
        assert schema.missing() == []


def test_a_site_without_migrations_is_taken_as_it_is(newest: str, settings: Any) -> None:
    settings.MIGRATION_MODULES = {"jobs": None}
    assert schema.missing() == []


def test_job_types_of_other_apps_wait_for_their_tables_too() -> None:
    assert {"jobs", "videos"} <= set(schema._labels())
