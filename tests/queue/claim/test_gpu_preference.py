"""A job that prefers a GPU is left to idle GPU workers, never longer than its own patience."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import database, enqueue, fleet
from jobs.models import Worker, WorkerStatus
from tests.conftest import Declare
from tests.support.queue.actors import age, claimed_ids, new_worker

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _a_type_that_prefers_a_gpu(declare: Declare) -> None:
    declare("here.encode", prefers="gpu")


def test_a_cpu_worker_stands_back_while_a_gpu_worker_is_idle() -> None:
    job = enqueue("here.encode").id
    gpu, cpu = new_worker(capabilities=["gpu"]), new_worker()
    assert claimed_ids(cpu) == []
    assert claimed_ids(gpu) == [job]


def test_a_cpu_worker_takes_the_job_when_there_is_no_gpu_worker() -> None:
    job = enqueue("here.encode").id
    assert claimed_ids(new_worker()) == [job]


def test_the_patience_is_bounded_by_the_age_of_the_job(settings: Settings) -> None:
    settings.JOBS = {"GPU_PATIENCE": "60s"}
    old, young = enqueue("here.encode").id, enqueue("here.encode").id
    new_worker(capabilities=["gpu"])
    age([old], 61)
    age([young], 50)
    assert claimed_ids(new_worker(), 5) == [old]


def test_an_idle_gpu_worker_holds_back_only_jobs_that_prefer_it() -> None:
    enqueue("here.encode", priority=0)
    plain = enqueue("tests.noop").id
    new_worker(capabilities=["gpu"])
    assert claimed_ids(new_worker(), 5) == [plain]


def two_heartbeats_ago() -> Any:
    return database.now_minus(timedelta(seconds=61))


@pytest.mark.parametrize(
    "state",
    [
        {"disabled": True},
        {"status": WorkerStatus.OFFLINE},
        {"draining": True},
        {"stopped_at": Now()},
        {"last_heartbeat": two_heartbeats_ago()},
        {"last_heartbeat": None},
        {"types": ["tests.noop"]},
    ],
    ids=["disabled", "offline", "draining", "stopped", "silent", "never heard of", "other types"],
)
def test_a_gpu_worker_that_cannot_take_the_job_holds_nobody_back(state: dict[str, Any]) -> None:
    job = enqueue("here.encode").id
    new_worker(capabilities=["gpu"], **state)
    assert claimed_ids(new_worker()) == [job]


def test_a_busy_gpu_worker_holds_nobody_back() -> None:
    gpu, cpu = new_worker(capabilities=["gpu"]), new_worker()
    enqueue("tests.noop")
    assert len(claimed_ids(gpu)) == 1
    job = enqueue("here.encode").id
    assert claimed_ids(cpu) == [job]


def test_a_gpu_worker_that_lacks_another_requirement_holds_nobody_back(declare: Declare) -> None:
    declare("here.encode_av1", prefers="gpu", requires=["av1"])
    job = enqueue("here.encode_av1").id
    new_worker(capabilities=["gpu"])
    assert claimed_ids(new_worker(capabilities=["av1"])) == [job]


def test_a_gpu_worker_enabled_again_is_served_first_again() -> None:
    job = enqueue("here.encode").id
    gpu, cpu = new_worker(capabilities=["gpu"]), new_worker()
    fleet.disable([gpu.pk])
    fleet.enable([gpu.pk])
    fleet.heartbeat(Worker.objects.get(pk=gpu.pk), busy=False)
    assert claimed_ids(cpu) == []
    assert claimed_ids(gpu) == [job]
