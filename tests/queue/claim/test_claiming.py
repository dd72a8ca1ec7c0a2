"""Who gets which job: each job goes to one worker, and only to one that may run it."""

from collections.abc import Collection
from functools import partial

import pytest
from django.db import connection, transaction

from jobs import enqueue, enqueue_many, fleet, lifecycle
from jobs.exceptions import UnknownWorker, WorkerDisabled, WorkerOffline
from jobs.models import Attempt, JobTypeState, Status, Worker, WorkerStatus
from tests.conftest import Declare
from tests.support.queue.actors import Background, claim_one, claimed_ids, new_worker, race, status_of, stored

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_eight_claimers_and_three_jobs_give_three_distinct_claims() -> None:
    jobs = set(enqueue_many("tests.noop", [{}] * 3))
    workers = [new_worker() for _ in range(8)]
    answers = race([partial(lifecycle.claim, worker, 1) for worker in workers])
    leases = [claimed.lease for answer in answers for claimed in answer]
    assert {lease.job_id for lease in leases} == jobs
    assert len(leases) == 3
    assert len({lease.worker_id for lease in leases}) == 3
    assert Attempt.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_claimers_of_batches_share_the_jobs_without_overlap() -> None:
    jobs = enqueue_many("tests.noop", [{}] * 60)
    workers = [new_worker() for _ in range(4)]

    def drain(worker: Worker) -> list[str]:
        mine: list[str] = []
        while batch := claimed_ids(worker, 7):
            mine += batch
        return mine

    answers = race([partial(drain, worker) for worker in workers])
    assert sorted(id for answer in answers for id in answer) == sorted(jobs)


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
def test_jobs_that_another_claimer_is_taking_are_passed_over_not_waited_for() -> None:
    first, second = enqueue_many("tests.noop", [{}] * 2)
    rival, other = new_worker(), new_worker()
    with transaction.atomic():
        assert claimed_ids(rival) == [first]
        assert Background(lambda: claimed_ids(other)).result() == [second]


def test_a_claim_says_all_that_the_worker_needs() -> None:
    job = enqueue(
        "tests.noop", {"colour": "red"}, submitter="ada", correlation_id="c-1", max_attempts=5, priority=7
    )
    worker = new_worker()
    claimed = claim_one(worker)
    assert (claimed.lease.job_id, claimed.lease.token, claimed.lease.worker_id) == (job.id, 1, worker.pk)
    assert claimed.type == "tests.noop"
    assert claimed.payload == {"colour": "red"}
    assert (claimed.attempt, claimed.max_attempts, claimed.priority) == (1, 5, 7)
    assert (claimed.submitter, claimed.correlation_id) == ("ada", "c-1")


def test_a_claim_writes_the_lease_and_who_holds_it() -> None:
    enqueue("tests.noop")
    worker = new_worker()
    job = stored(claim_one(worker).lease.job_id)
    assert job.status == Status.PROCESSING
    assert (job.worker_id, job.lease_token, job.attempt_number) == (worker.pk, 1, 1)
    assert (job.processed_by_worker_id, job.processed_by_worker_name) == (worker.pk, worker.name)
    assert job.started_at == job.claimed_at == job.last_checkpoint is not None
    assert job.claim_expires_at is not None
    assert (job.claim_expires_at - job.claimed_at).total_seconds() == pytest.approx(30 * 60, abs=1)


def test_the_first_start_is_remembered_when_the_job_starts_again() -> None:
    enqueue("tests.noop")
    claimed = claim_one()
    started = stored(claimed.lease.job_id).started_at
    lifecycle.release([claimed.lease])
    again = claim_one()
    assert stored(again.lease.job_id).started_at == started
    assert stored(again.lease.job_id).claimed_at >= started


def test_a_claim_of_several_gives_no_more_than_asked_for() -> None:
    enqueue_many("tests.noop", [{}] * 5)
    worker = new_worker()
    assert len(lifecycle.claim(worker, 3)) == 3
    assert len(lifecycle.claim(worker, 3)) == 2
    assert lifecycle.claim(worker, 3) == []


def test_a_claim_of_none_takes_none() -> None:
    job = enqueue("tests.noop")
    assert lifecycle.claim(new_worker(), 0) == []
    assert status_of(job) == Status.PENDING


def test_a_worker_gets_only_the_types_it_handles(declare: Declare) -> None:
    declare("here.other")
    other, mine = enqueue("here.other"), enqueue("tests.noop")
    assert claimed_ids(new_worker(types=["tests.noop"]), 5) == [mine.id]
    assert claimed_ids(new_worker(types=["here.other"]), 5) == [other.id]


def test_a_claim_can_be_narrowed_to_some_of_the_types_a_worker_handles(declare: Declare) -> None:
    declare("here.other")
    enqueue("here.other")
    mine = enqueue("tests.noop")
    worker = new_worker()
    assert [c.lease.job_id for c in lifecycle.claim(worker, 5, types={"tests.noop"})] == [mine.id]
    assert lifecycle.claim(worker, 5, types={"never.heard.of"}) == []


def test_a_worker_without_the_required_capabilities_does_not_get_the_job(declare: Declare) -> None:
    declare("here.encode", requires=["gpu", "av1"])
    job = enqueue("here.encode")
    assert claimed_ids(new_worker()) == []
    assert claimed_ids(new_worker(capabilities=["gpu"])) == []
    assert claimed_ids(new_worker(capabilities=["gpu", "av1", "large-disk"])) == [job.id]


def test_what_an_app_finds_out_is_among_a_workers_capabilities(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fleet, "_finders", [])

    @fleet.finds_capabilities
    def no_driver(job_types: Collection[str]) -> list[str]:
        raise OSError("no such device")

    @fleet.finds_capabilities
    def cards(job_types: Collection[str]) -> list[str]:
        return ["gpu", "av1"] if "here.encode" in job_types else []

    encoder = fleet.register(
        name="encoder", job_types=["here.encode"], capabilities=["av1", "big"], concurrency=1
    )
    assert Worker.objects.get(pk=encoder.pk).capabilities == encoder.capabilities == ["av1", "big", "gpu"]
    (record,) = caplog.records
    assert (record.name, record.levelname) == (fleet.log.name, "ERROR")
    assert record.args == (__name__, no_driver.__name__)
    other = fleet.register(name="other", job_types=["tests.noop"], capabilities=[], concurrency=1)
    assert other.capabilities == []


def test_waiting_jobs_cannot_be_claimed() -> None:
    enqueue("tests.noop", delay=3600)
    assert lifecycle.claim(new_worker(), 5) == []


def test_a_disabled_worker_cannot_claim() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    fleet.disable([worker.pk])
    with pytest.raises(WorkerDisabled):
        lifecycle.claim(worker, 1)
    assert status_of(job) == Status.PENDING


def test_a_heartbeat_does_not_enable_a_disabled_worker() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    fleet.disable([worker.pk])
    assert fleet.heartbeat(worker, busy=False) == "disabled"
    with pytest.raises(WorkerDisabled):
        lifecycle.claim(worker, 1)
    fleet.enable([worker.pk])
    assert claimed_ids(worker) == [job.id]


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_waited_while_its_worker_was_disabled_takes_nothing() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    with transaction.atomic():
        fleet.disable([worker.pk])
        claim = Background(lambda: lifecycle.claim(worker, 1))
        claim.wait_until_blocked()
    assert isinstance(claim.outcome(), WorkerDisabled)
    assert status_of(job) == Status.PENDING


def test_a_worker_that_is_not_registered_cannot_claim() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    Worker.objects.filter(pk=worker.pk).delete()
    with pytest.raises(UnknownWorker):
        lifecycle.claim(worker, 1)
    assert status_of(job) == Status.PENDING


def test_an_offline_worker_must_send_a_heartbeat_before_it_claims() -> None:
    job = enqueue("tests.noop")
    worker = new_worker(status=WorkerStatus.OFFLINE)
    with pytest.raises(WorkerOffline):
        lifecycle.claim(worker, 1)
    fleet.heartbeat(worker, busy=False)
    assert claimed_ids(worker) == [job.id]


def test_a_draining_worker_gets_nothing_new() -> None:
    enqueue("tests.noop")
    worker = new_worker()
    fleet.drain([worker.pk])
    assert lifecycle.claim(worker, 1) == []


def test_a_paused_type_is_not_claimed_until_it_is_resumed() -> None:
    job = enqueue("tests.noop")
    worker = new_worker()
    JobTypeState.objects.update_or_create(name="tests.noop", defaults={"paused": True})
    assert claimed_ids(worker) == []
    JobTypeState.objects.filter(name="tests.noop").update(paused=False)
    assert claimed_ids(worker) == [job.id]
