"""Jobs of a worker that is proven dead are taken back; those of one that lives are not, however late it came."""

from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs import enqueue, fleet, lifecycle, recovery
from jobs.models import Status, Worker, WorkerStatus
from tests.support.queue.actors import (
    Background,
    a_dead_process,
    claim_one,
    new_worker,
    outcomes_of,
    status_of,
)

pytestmark = pytest.mark.django_db


def test_the_jobs_of_a_worker_that_said_goodbye_are_taken_back() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    claim_one(worker)
    assert recovery.bury_the_dead([worker.pk]) == []
    fleet.say_goodbye(worker)
    assert recovery.bury_the_dead([worker.pk]) == [job.id]
    assert outcomes_of(job.id) == ["lost"]


def test_a_worker_that_is_only_silent_keeps_its_jobs() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    claim_one(worker)
    Worker.objects.update(last_heartbeat="2001-01-01T00:00Z")
    assert fleet.mark_silent_offline() == [worker.name]
    assert recovery.bury_the_dead([worker.pk]) == []
    assert status_of(job) == Status.PROCESSING


def test_a_worker_that_is_proven_dead_counts_as_offline_at_once_with_or_without_jobs() -> None:
    busy, idle, alive = a_dead_process(status=WorkerStatus.BUSY), a_dead_process(), new_worker()
    job = enqueue("tests.noop")
    claim_one(busy)
    assert recovery.bury_the_dead([busy.pk, alive.pk]) == [job.id]
    assert set(Worker.objects.online()) == {idle, alive}
    assert recovery.sweep()
    assert set(Worker.objects.online()) == {alive}


def test_a_worker_that_was_taken_for_dead_comes_back_by_its_heartbeat() -> None:
    worker = a_dead_process()
    assert fleet.mark_dead_offline(worker, "its session lock is free")
    assert not fleet.mark_dead_offline(worker, "its session lock is free")
    fleet.heartbeat(worker, busy=False)
    assert Worker.objects.online().get() == worker


def test_a_worker_whose_name_was_taken_over_meanwhile_keeps_what_it_has_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the proof that the old process is dead and the recovery, its successor registers and claims."""
    job = enqueue("tests.noop")
    worker = new_worker(stopped_at=Now())
    judge = fleet.proof_of_death
    judged: list[Any] = []

    def judge_and_let_the_successor_begin(subject: Worker) -> str | None:
        proof = judge(subject)
        if not judged:
            fleet.heartbeat(worker, busy=False)
            claim_one(worker)
        judged.append(proof)
        return proof

    monkeypatch.setattr(fleet, "proof_of_death", judge_and_let_the_successor_begin)
    assert recovery.bury_the_dead([worker.pk]) == []
    assert judged[0] is not None
    assert status_of(job) == Status.PROCESSING


@pytest.mark.django_db(transaction=True)
def test_a_burial_that_waited_for_a_heartbeat_takes_nothing() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    lease = claim_one(worker).lease
    fleet.say_goodbye(worker)
    with transaction.atomic():
        fleet.heartbeat(worker, busy=True)
        burial = Background(lambda: recovery.bury_the_dead([worker.pk]))
        burial.wait_until_blocked()
    assert burial.result() == []
    assert status_of(job) == Status.PROCESSING
    lifecycle.complete(lease)
