"""snapshot(): how the queue stands, in numbers."""

from __future__ import annotations

import json

import pytest

from jobs import HIGH, LOW, enqueue, enqueue_many, lifecycle, snapshot, workflow
from jobs.lifecycle import FailureReport
from jobs.models import Worker
from tests.conftest import Declare
from tests.support.queue.actors import claim_one, new_worker

pytestmark = pytest.mark.django_db


def test_an_empty_queue() -> None:
    assert snapshot() == {
        "depth": 0,
        "ready": 0,
        "scheduled": 0,
        "processing": 0,
        "completed": 0,
        "failed": 0,
        "types": {},
        "priorities": {},
        "breakers": {},
        "workers": 0,
        "shutdown": False,
    }


def test_jobs_are_counted_by_state_type_and_priority(declare: Declare) -> None:
    declare("tests.other")
    worker = new_worker(types=["tests.noop"])
    for end in ("complete", "fail", "hold"):
        enqueue("tests.noop")
        lease = claim_one(worker).lease
        if end == "complete":
            lifecycle.complete(lease)
        elif end == "fail":
            lifecycle.fail(lease, FailureReport("ValueError", "no", permanent=True))
    enqueue_many("tests.other", [{}, {}], priority=HIGH)
    enqueue("tests.other", priority=LOW, delay=60)
    enqueue("tests.other", priority=7)
    with workflow("w") as flow:
        flow.add("tests.noop", after=[flow.add("tests.noop")])
    now = snapshot()
    assert {
        key: now[key] for key in ("depth", "ready", "scheduled", "processing", "completed", "failed")
    } == {
        "depth": 6,
        "ready": 4,
        "scheduled": 2,
        "processing": 1,
        "completed": 1,
        "failed": 1,
    }
    assert now["types"] == {
        "tests.noop": {"pending": 1, "waiting": 1, "processing": 1, "completed": 1, "failed": 1},
        "tests.other": {"pending": 3, "waiting": 1},
    }
    assert now["priorities"] == {"7": 1, "high": 2, "low": 1, "normal": 3}
    assert json.loads(json.dumps(now)) == now


def test_workers_that_left_or_are_offline_do_not_count() -> None:
    new_worker()
    new_worker(status="offline")
    new_worker(stopped_at="2030-01-01T00:00:00Z")
    assert snapshot()["workers"] == 1


def test_the_queue_shuts_down_when_no_worker_takes_new_jobs() -> None:
    first, second = new_worker(), new_worker()
    Worker.objects.filter(pk=first.pk).update(draining=True)
    assert snapshot()["shutdown"] is False
    Worker.objects.filter(pk=second.pk).update(disabled=True)
    assert snapshot()["shutdown"] is True
