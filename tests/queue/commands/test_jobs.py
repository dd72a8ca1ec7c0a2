"""manage.py jobs: how the queue stands, retry, cancel."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from jobs import HIGH, enqueue, enqueue_many, lifecycle, snapshot, workflow
from jobs.lifecycle import FailureReport
from jobs.models import Event, Worker
from tests.conftest import RunManage
from tests.support import ROOT
from tests.support.queue.actors import claim_one, new_worker, status_of
from tests.support.queue.commands import help_of, manage

pytestmark = pytest.mark.django_db


def test_workers_that_are_gone_are_forgotten_by_their_names() -> None:
    job = enqueue("tests.noop")
    gone, busy = new_worker(name="gone"), new_worker(name="busy")
    lifecycle.complete(claim_one(gone).lease)
    Worker.objects.filter(pk=gone.pk).update(status="offline")
    done = manage("jobs", "forget-worker", "gone", "busy", "nobody")
    assert done.code == 1
    assert "gone" in done.out
    assert len(done.err.splitlines()) == 2
    assert list(Worker.objects.values_list("name", flat=True)) == [busy.name]
    assert job.attempts.get().worker_name == "gone"


PERMANENT = FailureReport("ValueError", "no", permanent=True)
NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def ids_in(text: str) -> list[str]:
    """The jobs that a command names, in its order."""
    return re.findall(r"\b[0-9A-Z]{26}\b", text)


def fail_one() -> str:
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, PERMANENT)
    return str(job.id)


def test_the_status_is_a_table() -> None:
    fail_one()
    enqueue("tests.noop", delay=60)
    enqueue_many("demo.count", [{}] * 1200)
    lines = manage("jobs", "status").out.splitlines()
    rows = [line.split() for line in lines]
    assert rows[:7] == [
        ["depth", "1,201"],
        ["ready", "1,200"],
        ["scheduled", "1"],
        ["processing", "0"],
        ["completed", "0"],
        ["failed", "1"],
        ["workers", "1"],
    ]
    assert ["demo.count", "pending", "1,200"] in rows
    assert ["tests.noop", "failed", "1", "waiting", "1"] in rows


def test_the_status_says_when_nobody_works() -> None:
    rows = 7
    assert "manage.py runworker" in manage("jobs", "status").out
    worker = new_worker()
    assert len(manage("jobs", "status").out.splitlines()) == rows
    Worker.objects.filter(pk=worker.pk).update(disabled=True)
    told = manage("jobs", "status").out
    assert len(told.splitlines()) == rows + 1
    assert "manage.py runworker" not in told


def test_the_status_as_json_is_the_snapshot() -> None:
    fail_one()
    enqueue("tests.noop", priority=HIGH)
    assert json.loads(manage("jobs", "status", "--json").out) == snapshot()


def test_failed_and_cancelled_jobs_are_retried() -> None:
    failed, cancelled = fail_one(), enqueue("tests.noop").id
    lifecycle.cancel(cancelled)
    done = manage("jobs", "retry", failed, cancelled)
    assert (done.code, ids_in(done.out), done.err) == (0, [failed, cancelled], "")
    assert (status_of(failed), status_of(cancelled)) == ("pending", "pending")
    assert Event.objects.filter(kind="retried", actor="manage.py").count() == 2


def test_all_dead_letters_are_retried_and_nothing_else() -> None:
    failed, cancelled = [fail_one(), fail_one()], enqueue("tests.noop").id
    lifecycle.cancel(cancelled)
    assert manage("jobs", "retry", "--all-failed").code == 0
    assert [status_of(job) for job in failed] == ["pending", "pending"]
    assert status_of(cancelled) == "cancelled"
    nothing_left = manage("jobs", "retry", "--all-failed")
    assert (nothing_left.code, nothing_left.out) == (0, "")


def test_a_retry_says_how_much_it_revived() -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
        flow.add("tests.noop", after=[second])
    lifecycle.fail(claim_one().lease, PERMANENT)
    told = manage("jobs", "retry", first.id).out
    assert first.id in told
    assert "2" in told.replace(first.id, "").split()


def test_what_cannot_be_changed_is_named_and_the_rest_is_done() -> None:
    failed, pending = fail_one(), enqueue("tests.noop").id
    done = manage("jobs", "retry", pending, NOBODY, failed)
    assert done.code == 1
    assert ids_in(done.out) == [failed]
    assert ids_in(done.err) == [pending, NOBODY]
    assert (status_of(failed), Event.objects.filter(kind="retried").count()) == ("pending", 1)


def test_a_job_whose_prerequisite_failed_is_refused_with_the_remedy() -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    done = manage("jobs", "retry", second.id)
    assert (done.code, done.out) == (1, "")
    assert ids_in(done.err) == [second.id, first.id]


@pytest.mark.parametrize("arguments", [[], ["--all-failed", "01J"]])
def test_retry_wants_either_names_or_all(arguments: list[str]) -> None:
    refused = manage("jobs", "retry", *arguments)
    assert refused.code == 2
    assert "--all-failed" in refused.err


def test_active_jobs_are_cancelled_and_ended_ones_named() -> None:
    pending, failed = enqueue("tests.noop", delay=60).id, fail_one()
    done = manage("jobs", "cancel", pending, failed)
    assert (done.code, ids_in(done.out), ids_in(done.err)) == (1, [pending], [failed])
    assert status_of(pending) == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_as_a_process_it_exits_with_these_codes(run_manage: RunManage) -> None:
    assert json.loads(run_manage("jobs", "status", "--json").stdout)["depth"] == 0
    refused = run_manage("jobs", "cancel", NOBODY, check=False)
    assert (refused.returncode, ids_in(refused.stderr), refused.stdout) == (1, [NOBODY], "")
    assert len(refused.stderr.splitlines()) == 1
    wrong = run_manage("jobs", "dance", check=False)
    assert wrong.returncode == 2
    assert "'dance'" in wrong.stderr


def test_the_help_teaches() -> None:
    told = help_of("jobs")
    for words in (
        "examples:",
        "manage.py jobs status --json",
        "manage.py jobs retry --all-failed",
        "exit codes: 0",
    ):
        assert words in told


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(
    manage_environment: dict[str, str], transactional_db: None, unbuffered: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "manage.py", "jobs", "status"],
        env=manage_environment | {"PYTHONUNBUFFERED": unbuffered},
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
