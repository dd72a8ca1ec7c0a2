"""Workers that come over HTTP in the fleet: alive by heartbeat, gone when they say so or when their leases run out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import database, enqueue, fleet, lifecycle, recovery, remote, watch
from jobs.exceptions import WorkerNameTaken
from jobs.models import ClaimAnswer, Job, JobTypeState, Status, Worker, WorkerKey, WorkerStatus
from jobs.processes import this_host
from jobs.remote import Announcement
from tests.conftest import Declare
from tests.support.queue.actors import claim_one, expire, new_worker, outcomes_of, status_of, stored
from tests.support.remote.remote_client import REMOTE, RemoteClient, enqueue_remote, good, new_remote, refused

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _site(declare: Declare, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": "1ms"}  # the test's server has just been started
    declare(REMOTE, remote=True)
    declare("here.local")


@pytest.fixture
def far() -> RemoteClient:
    return new_remote("far-away")


def leases(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"job_id": job["job_id"], "token": job["token"]} for job in jobs]


# -- alive and dead ----------------------------------------------------------------------------------------------------


def test_a_silent_remote_worker_keeps_its_jobs_until_their_leases_run_out(far: RemoteClient) -> None:
    job_id = enqueue_remote()
    far.claim_one()
    Worker.objects.update(last_heartbeat=database.now_minus(timedelta(hours=1)))
    recovery.sweep()
    assert (Worker.objects.get().status, status_of(job_id)) == (WorkerStatus.OFFLINE, Status.PROCESSING)
    expire(job_id)
    recovery.sweep()
    assert status_of(job_id) == Status.PENDING
    assert outcomes_of(job_id) == ["lost"]
    assert stored(job_id).attempt_number == 1, "the attempt counts"


def test_nothing_but_its_goodbye_proves_that_a_remote_worker_is_dead(far: RemoteClient) -> None:
    """Not even what would prove it of a local worker: whatever stands in these columns is not about it."""
    job_id = enqueue_remote()
    far.claim_one()
    here = {"host": str(this_host()), "pid": 2**22 + 1, "process_start": "gone"}
    for columns in ({}, here, {"host": f"{this_host().name}|before|x"}, {"host": "x", "lock_key": 1}):
        Worker.objects.update(**columns)
        assert fleet.proof_of_death(Worker.objects.get()) is None
        recovery.sweep()
    assert status_of(job_id) == Status.PROCESSING


def test_a_goodbye_gives_the_jobs_free_at_once(far: RemoteClient) -> None:
    job_id = enqueue_remote()
    far.claim_one()
    assert far.heartbeat("stopped")["state"] == "offline"
    recovery.sweep()
    assert (status_of(job_id), outcomes_of(job_id)) == (Status.PENDING, ["lost"])
    assert refused(far.ask(), 409, "worker_offline")
    assert far.heartbeat()["state"] == "idle"
    assert far.claim_one()["job_id"] == job_id


def test_a_new_start_under_the_same_key_takes_back_what_the_former_process_held(far: RemoteClient) -> None:
    job_id = enqueue_remote()
    before = far.claim_one()
    answer = far.heartbeat("starting")
    assert (answer["leases"], status_of(job_id), outcomes_of(job_id)) == ([], Status.PENDING, ["lost"])
    assert refused(far.report("complete", before), 409, "lease_lost")
    assert far.claim_one()["token"] > before["token"]


def test_a_local_worker_never_takes_the_name_of_a_remote_one(
    far: RemoteClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_NAME_PATIENCE", 0.5)
    far.heartbeat("stopped")
    with pytest.raises(WorkerNameTaken):
        fleet.register(name="far-away", job_types=[], capabilities=[], concurrency=1)
    assert Worker.objects.get().kind == "remote"


def test_a_silent_worker_comes_back_with_a_heartbeat(far: RemoteClient) -> None:
    Worker.objects.update(status=WorkerStatus.OFFLINE)
    job_id = enqueue_remote()
    assert refused(far.ask(), 409, "worker_offline")
    far.heartbeat()
    assert far.claim_one()["job_id"] == job_id


# -- heartbeats --------------------------------------------------------------------------------------------------------


def test_a_heartbeat_renews_what_the_worker_says_it_runs_and_nothing_else(far: RemoteClient) -> None:
    for _ in range(2):
        enqueue_remote()
    first, second = far.claim(2)
    Job.objects.update(claim_expires_at=database.now_plus(timedelta(seconds=5)))
    answer = far.heartbeat("busy", running=leases([first]))
    assert {lease["job_id"] for lease in answer["leases"]} == {first["job_id"], second["job_id"]}
    assert stored(first["job_id"]).claim_expires_at > stored(second["job_id"]).claim_expires_at
    assert (answer["state"], answer["order"], answer["stop"]) == ("busy", "", [])
    assert (answer["heartbeat_seconds"], answer["lease_seconds"]) == (30, 1800)


def test_a_job_that_hangs_is_not_renewed(far: RemoteClient) -> None:
    enqueue_remote()
    job = far.claim_one()
    soon = database.now_plus(timedelta(seconds=5))
    Job.objects.update(claim_expires_at=soon, last_checkpoint=database.now_minus(timedelta(hours=1)))
    before = stored(job["job_id"]).claim_expires_at
    far.heartbeat("busy", running=leases([job]))
    assert stored(job["job_id"]).claim_expires_at == before


def test_a_heartbeat_says_which_jobs_to_stop_and_why(far: RemoteClient) -> None:
    for _ in range(4):
        enqueue_remote()
    jobs = far.claim(4)
    cancelled, taken, completed, fine = jobs
    lifecycle.cancel(cancelled["job_id"])
    expire(taken["job_id"])
    lifecycle.recover_expired()
    good(far.report("complete", completed))
    stop = far.heartbeat("busy", running=leases(jobs))["stop"]
    assert {entry["job_id"]: entry["reason"] for entry in stop} == {
        cancelled["job_id"]: "cancelled",
        taken["job_id"]: "lost",
        completed["job_id"]: "finished",
    }
    assert fine["job_id"] not in str(stop)


def test_a_heartbeat_tells_nothing_about_jobs_of_others(far: RemoteClient) -> None:
    other = enqueue("here.local").pk
    token = claim_one().lease.token
    lifecycle.cancel(other)
    asked = [
        {"job_id": other, "token": token},
        {"job_id": "0" * 26, "token": 1},
        {"job_id": "no id", "token": 9},
    ]
    assert {entry["reason"] for entry in far.heartbeat("busy", running=asked)["stop"]} == {"lost"}


def test_a_disabled_worker_is_told_to_stop_may_report_and_gets_nothing_new(far: RemoteClient) -> None:
    enqueue_remote()
    enqueue_remote()
    job = far.claim_one()
    fleet.disable([far.worker.pk])
    answer = far.heartbeat("busy", running=leases([job]))
    assert (answer["state"], answer["order"]) == ("disabled", "disabled")
    assert [entry["reason"] for entry in answer["stop"]] == ["disabled"]
    assert refused(far.ask(), 403, "worker_disabled")
    good(far.report("release", job))
    assert far.heartbeat("idle")["state"] == "disabled", "no heartbeat enables it"
    assert far.heartbeat("starting")["state"] == "disabled"
    fleet.enable([far.worker.pk])
    assert far.heartbeat()["order"] == ""
    assert len(far.claim(5)) == 2


def test_a_draining_worker_may_finish_and_gets_nothing_new(far: RemoteClient) -> None:
    enqueue_remote()
    enqueue_remote()
    job = far.claim_one()
    fleet.drain([far.worker.pk])
    answer = far.heartbeat("busy", running=leases([job]))
    assert (answer["order"], answer["stop"]) == ("draining", [])
    assert far.claim() == []
    good(far.report("complete", job))
    assert far.heartbeat("starting")["order"] == "", "a new process has not been asked to"


def test_an_outdated_worker_is_told_so_and_gets_nothing_until_it_is_upgraded(
    far: RemoteClient, settings: Any
) -> None:
    enqueue_remote()
    enqueue_remote()
    assert far.heartbeat(version="0.9.1")["min_version"] == ""
    job = far.claim_one()
    settings.JOBS = {**settings.JOBS, "MIN_WORKER_VERSION": "0.10"}
    answer = far.heartbeat("busy", running=leases([job]))
    assert (answer["order"], answer["min_version"]) == ("outdated", "0.10")
    assert [entry["reason"] for entry in answer["stop"]] == ["outdated"]
    assert "0.10" in refused(far.ask(), 403, "worker_outdated")
    good(far.report("release", job))
    assert far.heartbeat("starting", version="0.10.0")["order"] == ""
    assert far.claim(1)


def test_what_a_worker_tells_about_itself_is_kept(far: RemoteClient) -> None:
    told = {
        "types": [REMOTE],
        "capabilities": ["gpu", "avx2", "gpu"],
        "concurrency": 3,
        "version": "1.2",
        "metadata": {"host": "box", "cores": [1, 2]},
    }
    far.heartbeat("starting", **told)
    far.heartbeat("idle")
    worker = Worker.objects.get()
    assert (worker.job_types, worker.capabilities) == ([REMOTE], ["avx2", "gpu"])
    assert (worker.concurrency, worker.version) == (3, "1.2")
    assert worker.metadata == {"host": "box", "cores": [1, 2]}


def test_a_heartbeat_that_tells_nothing_new_writes_only_the_time(far: RemoteClient) -> None:
    far.heartbeat("starting", types=[REMOTE], metadata={"a": 1}, version="1")
    JobTypeState.objects.all().delete()
    far.heartbeat("idle", types=[REMOTE], metadata={"a": 1}, version="1")
    assert not JobTypeState.objects.exists()


# -- what it may claim -------------------------------------------------------------------------------------------------


def test_only_types_that_are_declared_remote_go_to_remote_workers(far: RemoteClient) -> None:
    enqueue("here.local")
    assert far.heartbeat("starting", types=["here.local", "no.such.type", REMOTE])["types"] == [REMOTE]
    assert far.claim(5) == []
    Worker.objects.update(job_types=["here.local", REMOTE])
    assert far.claim(5) == [], "not even if its record says otherwise"
    assert far.claim(5, types=["here.local"]) == []


def test_a_claim_honours_the_types_it_asks_for(far: RemoteClient, declare: Declare) -> None:
    declare("here.second", remote=True)
    far.heartbeat("starting", types=[REMOTE, "here.second"])
    enqueue_remote()
    enqueue("here.second")
    assert [job["type"] for job in far.claim(5, types=["here.second"])] == ["here.second"]
    assert far.claim(5, types=[]) == []
    assert [job["type"] for job in far.claim(5)] == [REMOTE]


def test_capabilities_limits_and_pauses_count_as_for_local_workers(declare: Declare) -> None:
    declare("here.gpu", remote=True, requires=["gpu"])
    declare("here.limited", remote=True, concurrency=2)
    declare("here.alone", remote=True, per_worker=1)
    plain, strong = new_remote(), new_remote(capabilities=["gpu"])
    for name in ("here.gpu", "here.limited", "here.alone"):
        for _ in range(4):
            enqueue(name)
    JobTypeState.objects.filter(name=REMOTE).update(paused=True)
    enqueue_remote()

    def got(client: RemoteClient) -> list[str]:
        return sorted(job["type"] for job in client.claim(10))

    assert got(plain) == ["here.alone", "here.limited", "here.limited"]
    assert got(strong) == ["here.alone", *["here.gpu"] * 4]
    assert got(plain) == []


def test_a_worker_holds_no_more_jobs_than_it_has_places() -> None:
    """Whoever has stolen a key cannot put the whole queue out of reach with it."""
    far = new_remote(concurrency=3)
    for _ in range(10):
        enqueue_remote()
    jobs = far.claim(10)
    assert len(jobs) == 3
    assert far.claim(10) == []
    good(far.report("complete", jobs[0]))
    assert len(far.claim(10)) == 1


# -- a fleet without local workers -------------------------------------------------------------------------------------


def test_where_all_workers_are_remote_the_site_does_what_local_ones_do() -> None:
    far = new_remote()
    expired, due = enqueue_remote(), enqueue("here.remote", delay=timedelta(hours=1)).pk
    far.claim_one()
    expire(expired)
    Job.objects.filter(pk=due).update(run_at=Now())
    watch.Watch().look()
    assert {job["job_id"] for job in new_remote().claim(5)} == {expired, due}


def test_where_a_local_worker_lives_the_site_leaves_it_to_that(far: RemoteClient) -> None:
    new_worker()
    due = enqueue("here.remote", delay=timedelta(hours=1)).pk
    Job.objects.filter(pk=due).update(run_at=Now())
    watch.Watch().look()
    assert far.claim(5) == []
    assert status_of(due) == Status.WAITING


def test_old_answers_are_pruned(far: RemoteClient) -> None:
    enqueue_remote()
    far.claim(1)
    recovery.prune_the_rest()
    assert ClaimAnswer.objects.count() == 1
    ClaimAnswer.objects.update(at=database.now_minus(timedelta(minutes=31)))
    recovery.prune_the_rest()
    assert not ClaimAnswer.objects.exists()


def test_a_worker_is_deleted_with_its_keys_and_answers(far: RemoteClient) -> None:
    enqueue_remote()
    good(far.report("complete", far.claim_one()))
    Worker.objects.all().delete()
    assert not WorkerKey.objects.exists()
    assert not ClaimAnswer.objects.exists()
    assert refused(far.ask(), 401, "key_unknown")


def test_a_name_belongs_to_one_worker() -> None:
    remote.register("twice", Announcement())
    with pytest.raises(WorkerNameTaken):
        remote.register("twice", Announcement())
