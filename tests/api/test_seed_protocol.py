"""The worker API as the customer's first document writes it: the job in the body, no token, no keys of claims."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from jobs import lifecycle
from jobs.models import ClaimAnswer, Job, Status, Worker, WorkerStatus
from tests.support.queue.actors import expire, outcomes_of, status_of, stored
from tests.support.remote.remote_client import (
    SECRET,
    RemoteClient,
    enqueue_remote,
    good,
    new_remote,
    refused,
)
from tests.support.remote.remote_fixtures import far as far  # fixtures
from tests.support.remote.remote_fixtures import job as job
from tests.support.remote.remote_fixtures import remote_type as remote_type

pytestmark = pytest.mark.django_db

Job_ = dict[str, Any]
FLAT: dict[str, dict[str, Any]] = {
    "progress": {"percent": 5},
    "complete": {"result": 1},
    "fail": {"message": "no"},
}
on_each = pytest.mark.parametrize("verb", FLAT)


def flat(far: RemoteClient, verb: str, of_job: str, **fields: Any) -> Any:
    return far.send(verb, {"job_id": of_job, **FLAT[verb], **fields})


def test_a_job_is_reported_about_by_its_id_alone(far: RemoteClient) -> None:
    done, failed = enqueue_remote(), enqueue_remote()
    assert len(far.claim(2)) == 2
    answer = good(far.send("progress", {"job_id": done, "current_step": "probe", "progress_percent": 12}))
    assert (answer["job_id"], answer["status"]) == (done, Status.PROCESSING)
    assert (stored(done).current_step, stored(done).progress_percent) == ("probe", 12)
    assert good(far.send("complete", {"job_id": done, "result": {"n": 1}}))["status"] == Status.COMPLETED
    assert (status_of(done), stored(done).result) == (Status.COMPLETED, {"n": 1})
    assert good(far.send("fail", {"job_id": failed, "error_message": "gone"}))["status"] == Status.WAITING
    assert "gone" in stored(failed).last_error
    assert good(flat(far, "complete", done))["status"] == Status.COMPLETED, "once more, as with the token"


@on_each
def test_the_token_is_compared_where_it_is_sent(far: RemoteClient, job: Job_, verb: str) -> None:
    for token in (job["token"] + 1, 2**63 - 1):
        assert refused(flat(far, verb, job["job_id"], token=token), 409, "lease_lost")
    assert status_of(job["job_id"]) == Status.PROCESSING
    good(flat(far, verb, job["job_id"], token=job["token"]))


@on_each
def test_the_token_is_demanded_of_a_worker_that_has_claimed_the_job_twice(
    far: RemoteClient, job: Job_, verb: str
) -> None:
    expire(job["job_id"])
    lifecycle.recover_expired()
    again = far.claim_one()
    assert again["job_id"] == job["job_id"]
    assert refused(flat(far, verb, job["job_id"]), 422, "token_required")
    assert status_of(job["job_id"]) == Status.PROCESSING
    good(flat(far, verb, job["job_id"], token=again["token"]))


@on_each
def test_its_only_claim_of_a_job_that_another_worker_has_by_now_is_lost(
    far: RemoteClient, job: Job_, verb: str
) -> None:
    expire(job["job_id"])
    lifecycle.recover_expired()
    other = new_remote("other")
    assert other.claim_one()["job_id"] == job["job_id"]
    assert refused(flat(far, verb, job["job_id"]), 409, "lease_lost")
    assert status_of(job["job_id"]) == Status.PROCESSING
    good(flat(other, verb, job["job_id"]))


@on_each
@pytest.mark.parametrize("job_id", ["0" * 26, "x", "ü", "../x"])
def test_a_job_that_it_never_claimed_does_not_exist(far: RemoteClient, job_id: str, verb: str) -> None:
    assert refused(flat(far, verb, job_id), 404, "not_found")
    new_remote("other").claim(1)
    mine = enqueue_remote()
    new_remote("another").claim_one()
    assert refused(flat(far, verb, mine), 404, "not_found")


@on_each
@pytest.mark.parametrize(
    "wrong", [{"job_id": None}, {"job_id": 5}, {"token": 0}, {"token": "1"}, {"more": 1}], ids=str
)
def test_what_is_wrong_in_the_body_is_named(
    far: RemoteClient, job: Job_, verb: str, wrong: dict[str, Any]
) -> None:
    (field,) = wrong
    assert refused(flat(far, verb, job["job_id"], **wrong), 422, "invalid").startswith(field)
    assert outcomes_of(job["job_id"]) == ["running"]


def test_a_claim_needs_neither_a_body_nor_a_key(far: RemoteClient) -> None:
    first, second = enqueue_remote(), enqueue_remote()
    answers = [good(far.send("claim", body))["jobs"] for body in ("", "{}")]
    assert [[job["job_id"] for job in jobs] for jobs in answers] == [[first], [second]]
    assert not ClaimAnswer.objects.exists()


def test_a_heartbeat_needs_no_body(far: RemoteClient) -> None:
    Worker.objects.update(status=WorkerStatus.OFFLINE, last_heartbeat=None)
    answer = Client().post(
        "/api/worker/heartbeat",
        b"",
        content_type="application/x-www-form-urlencoded",  # as urllib and curl say by themselves
        headers={"X-Worker-API-Key": far.key},
    )
    assert good(answer)["state"] == "active"
    assert Worker.objects.get().last_heartbeat is not None
    assert len(far.claim()) == 0


def test_a_heartbeat_without_a_body_keeps_what_the_worker_told(far: RemoteClient) -> None:
    far.heartbeat("starting", capabilities=["gpu"], concurrency=7, metadata={"a": 1})
    good(far.send("heartbeat", b""))
    worker = Worker.objects.get()
    assert (worker.capabilities, worker.concurrency, worker.metadata) == (["gpu"], 7, {"a": 1})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"gpu": True, "nvenc": False, "vaapi": None}, ["gpu"]),
        (
            {"codecs": ["h264", "hevc"], "gpus": 2, "model": "T4"},
            ["codecs:h264", "codecs:hevc", "gpus:2", "model:T4"],
        ),
        ({"ffmpeg": {"build": "7.0", "av1": True, "vp9": False}}, ["ffmpeg:av1", "ffmpeg:build:7.0"]),
        ({}, []),
        (["gpu"], ["gpu"]),
    ],
)
def test_capabilities_are_a_list_or_an_object(far: RemoteClient, given: Any, kept: list[str]) -> None:
    far.heartbeat("starting", capabilities=given)
    assert Worker.objects.get().capabilities == kept


def test_a_worker_registers_by_the_names_of_the_document(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "WORKER_ADMIN_SECRET": SECRET}

    def register(**told: Any) -> Any:
        return Client().post(
            "/api/worker/register", told, content_type="application/json", headers={"X-Admin-Secret": SECRET}
        )

    told = {"worker_name": "rack-3", "worker_type": "remote", "capabilities": {"gpu": True}}
    answer = register(**told, metadata={"pod": "a"})
    assert set(answer.json()) >= {"worker_id", "api_key"}
    worker = Worker.objects.get()
    assert (worker.name, worker.kind, worker.capabilities) == ("rack-3", "remote", ["gpu"])
    assert (worker.status, worker.last_heartbeat is not None) == (WorkerStatus.ACTIVE, True)
    assert refused(register(worker_name="x", worker_type="local"), 422, "invalid").startswith("worker_type")
    names = {register().json()["name"] for _ in range(2)}
    assert len(names) == 2, "without a name it gets one"


def test_a_progress_report_has_each_field_once(far: RemoteClient, job: Job_) -> None:
    both = {"job_id": job["job_id"], "percent": 1, "progress_percent": 2}
    assert refused(far.send("progress", both), 422, "invalid").startswith("progress_percent")
    assert Job.objects.get().progress_percent == 0
