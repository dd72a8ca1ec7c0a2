"""manage.py reconcile, prune_jobs and check_invariants: what they print, and their exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from jobs import enqueue, workflow
from jobs.invariants import broken_rules
from jobs.models import Job
from tests.conftest import Declare, RunManage
from tests.queue.leases.test_pruning import completed, send_back
from tests.support.queue.actors import status_of
from tests.support.queue.commands import help_of, manage
from tests.support.queue.constraints import without_constraints

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(declare: Declare) -> Job:
    """A pending job whose artifact exists."""
    declare("tests.make", artifact=lambda payload: True)
    return enqueue("tests.make")


def test_reconcile_prints_what_it_changed(made: Job) -> None:
    done = manage("reconcile")
    line, total = done.out.splitlines()
    assert line.startswith(f"tests.make {made.id}: pending → completed ")
    assert (done.code, total.split()[0]) == (0, "1")
    assert status_of(made) == "completed"
    again = manage("reconcile")
    assert (again.code, len(again.out.splitlines())) == (0, 1)
    assert made.id not in again.out


def test_a_dry_run_of_reconcile_prints_the_same_and_changes_nothing(made: Job) -> None:
    done = manage("reconcile", "--dry-run")
    line, total = done.out.splitlines()
    assert line.startswith(f"tests.make {made.id}: pending → completed ")
    assert (done.code, total.split()[0]) == (0, "1")
    assert status_of(made) == "pending"
    assert manage("reconcile").out.splitlines()[0] == line


def test_prune_jobs_deletes_what_is_older_than_the_retention(settings: Any) -> None:
    settings.JOBS = {"RETENTION": "7d"}
    send_back(completed(), days=8)
    young = completed()
    done = manage("prune_jobs")
    assert (done.code, done.out.split()[0]) == (0, "1")
    assert [job.id for job in Job.objects.all()] == [young]
    assert manage("prune_jobs").out.split()[0] == "0"


def test_check_invariants_is_content_with_a_healthy_queue() -> None:
    enqueue("tests.noop")
    done = manage("check_invariants")
    assert (done.code, len(done.out.splitlines()), done.err) == (0, 1, "")


def test_check_invariants_prints_every_broken_rule_and_exits_with_1() -> None:
    job = enqueue("tests.noop")
    with without_constraints():
        Job.objects.update(blocked=True, progress_percent=200)
        done = manage("check_invariants")
        broken = broken_rules()
    assert (done.code, done.out) == (1, "")
    assert {violation.code for violation in broken} == {"jobs.bounds", "jobs.blocked_only_waiting"}
    said = [f"{violation.rule}: tests.noop {job.id}" for violation in broken]
    assert [line.startswith(start) for line, start in zip(done.err.splitlines(), said, strict=True)] == [
        True
    ] * 2


@pytest.mark.django_db(transaction=True)
def test_check_invariants_as_a_process_exits_with_1_until_the_rule_holds_again(run_manage: RunManage) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        flow.add("tests.noop", after=[first])
    Job.objects.filter(pk=first.pk).update(has_dependants=False)
    broken = run_manage("check_invariants", check=False)
    assert (broken.returncode, broken.stdout) == (1, "")
    (violation,) = broken_rules()
    assert (violation.code, broken.stderr.startswith(str(violation))) == ("jobs.unaware", True)
    assert first.id in run_manage("reconcile").stdout
    assert run_manage("check_invariants").stderr == ""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("reconcile", ["--dry-run"]),
        ("prune_jobs", ["RETENTION"]),
        ("check_invariants", ["Exit code 1"]),
    ],
)
def test_the_help_teaches(command: str, words: list[str]) -> None:
    told = " ".join(help_of(command).split())
    for word in words:
        assert word in told
