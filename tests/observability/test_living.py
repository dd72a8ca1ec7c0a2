"""A dead worker is not shown as alive, whoever asks, although nobody has swept since and its record says idle."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from jobs import database, enqueue, snapshot
from jobs.admin.story import explain
from jobs.dashboard.addresses import Addresses
from jobs.dashboard.topics import read_counts
from jobs.models import Worker, WorkerKind, WorkerStatus
from tests.conftest import RunManage, StartManage
from tests.support.queue.actors import a_dead_process, new_worker
from tests.support.queue.commands import manage
from tests.support.queue.workers import QUICK, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _silence_counts(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": "1ms"}  # the test's server has just been started


def killed() -> Worker:
    return a_dead_process()


def silent() -> Worker:
    """On another host, where nobody here sees its process."""
    return new_worker(host="elsewhere|1|2", pid=1, last_heartbeat=database.now_minus(timedelta(minutes=6)))


def silent_and_remote() -> Worker:
    return new_worker(kind=WorkerKind.REMOTE, last_heartbeat=database.now_minus(timedelta(minutes=6)))


def gone() -> Worker:
    return new_worker(stopped_at=database.now_minus(timedelta(minutes=1)))


@pytest.mark.parametrize("end", [killed, silent, silent_and_remote, gone])
def test_everybody_says_that_no_worker_is_running(end: Any, admin_client: Client) -> None:
    worker = end()
    job = enqueue("tests.noop")
    assert snapshot()["workers"] == 0
    assert snapshot()["shutdown"] is False, "it is not asked to stop, it is gone"
    assert "manage.py runworker" in manage("jobs", "status").out
    health = admin_client.get("/health").json()
    assert (health["status"], health["active_workers"]) == ("degraded", 0)
    counts = read_counts(Addresses("admin"))
    assert (counts["count.workers"], counts["alert.no_workers"]) == ("0", True)
    assert admin_client.get("/api/queue").json()["workers"] == 0
    (row,) = admin_client.get("/api/workers").json()["workers"]
    assert row["state"] == "offline"
    assert 'data-status="offline"' in admin_client.get("/admin/jobs/worker/").content.decode()
    assert (
        'data-status="offline"'
        in admin_client.get(f"/admin/jobs/worker/{worker.pk}/change/").content.decode()
    )
    assert explain(job).code == "no_worker"
    if worker.stopped_at is None:
        metrics = admin_client.get("/metrics").content.decode()
        assert 'sprocket_workers{status="offline"} 1' in metrics
        assert 'sprocket_workers{status="idle"} 0' in metrics
    assert Worker.objects.get().status == WorkerStatus.IDLE, "nobody has written anything"


def test_the_living_are_shown_as_what_they_are(admin_client: Client) -> None:
    new_worker()
    new_worker(kind=WorkerKind.SITE, name="site here")
    assert snapshot()["workers"] == 1
    assert admin_client.get("/health").json()["active_workers"] == 1
    assert [row["state"] for row in admin_client.get("/api/workers").json()["workers"]] == ["idle"]
    assert "site here" not in admin_client.get("/admin/jobs/worker/").content.decode()


def test_a_worker_that_is_killed_with_nobody_beside_it_is_known_to_be_dead(
    start_manage: StartManage, run_manage: RunManage
) -> None:
    worker = start_manage("runworker", env=QUICK)
    wait_for_worker(worker)
    assert json.loads(run_manage("jobs", "status", "--json").stdout)["workers"] == 1
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    enqueue("tests.noop")
    state = json.loads(run_manage("jobs", "status", "--json").stdout)
    assert (state["workers"], state["depth"], state["ready"]) == (0, 1, 1)
    assert "manage.py runworker" in run_manage("jobs", "status").stdout
