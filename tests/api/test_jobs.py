"""Jobs over HTTP: claims that can be repeated, reports that demand the lease, and what strangers learn: nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from jobs import database, enqueue, lifecycle
from jobs.exceptions import LeaseLost
from jobs.lifecycle import FailureReport, Lease
from jobs.models import Attempt, ClaimAnswer, Job, Status, Worker
from tests.support.queue.actors import (
    claim_one,
    events_of,
    expire,
    new_worker,
    outcomes_of,
    race,
    status_of,
    stored,
)
from tests.support.remote.remote_client import (
    REMOTE,
    VERBS,
    RemoteClient,
    enqueue_remote,
    further_key,
    good,
    new_remote,
    refused,
)
from tests.support.remote.remote_fixtures import far as far  # fixtures
from tests.support.remote.remote_fixtures import remote_type as remote_type

pytestmark = pytest.mark.django_db


def everything() -> Any:
    """All that a refused report might have changed."""
    return [list(model._default_manager.order_by("pk").values()) for model in (Job, Attempt, Worker)]


# -- claiming ----------------------------------------------------------------------------------------------------------


def test_a_claim_gives_all_that_is_needed_to_run_the_job(far: RemoteClient) -> None:
    job = enqueue(REMOTE, film=7, priority=3, submitter="anna", correlation_id="story-1")
    (given,) = far.claim()
    row = stored(job)
    assert given == {
        "job_id": job.pk,
        "token": row.lease_token,
        "type": REMOTE,
        "payload": {"film": 7},
        "attempt": 1,
        "max_attempts": row.max_attempts,
        "priority": 3,
        "correlation_id": "story-1",
        "submitter": "anna",
        "workflow_id": None,
        "expires_at": row.claim_expires_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    assert (row.status, row.worker_id) == (Status.PROCESSING, far.worker.pk)


def test_the_same_key_twice_gets_the_same_leases_and_no_second_claim(far: RemoteClient) -> None:
    for _ in range(5):
        enqueue_remote()
    first = far.claim(2, key="the-same-key")
    assert far.claim(2, key="the-same-key") == first
    assert far.claim(5, key="the-same-key") == first
    assert Job.objects.leased().count() == 2
    assert len(far.claim(5, key="another-key")) == 3
    assert far.claim(2, key="the-same-key") == first, "also after others"


def test_a_repeated_claim_leaves_out_leases_that_have_ended(far: RemoteClient) -> None:
    for _ in range(3):
        enqueue_remote()
    done, taken, held = far.claim(3, key="the-same-key")
    good(far.report("complete", done))
    expire(taken["job_id"])
    lifecycle.recover_expired()
    assert far.claim(3, key="the-same-key") == [held]
    (again,) = far.claim(3)
    assert again["job_id"] == taken["job_id"]
    assert far.claim(3, key="the-same-key") == [held], "the new lease of that job is another one"


def test_a_key_that_got_nothing_may_get_something_later(far: RemoteClient) -> None:
    assert far.claim(key="the-same-key") == []
    enqueue_remote()
    assert len(far.claim(key="the-same-key")) == 1
    assert ClaimAnswer.objects.count() == 1


def test_keys_of_claims_are_each_workers_own(far: RemoteClient) -> None:
    other = new_remote()
    enqueue_remote()
    enqueue_remote()
    (first,), (second,) = far.claim(key="the-same-key"), other.claim(key="the-same-key")
    assert first["job_id"] != second["job_id"]


def test_the_second_key_of_a_worker_is_the_same_worker(far: RemoteClient) -> None:
    enqueue_remote()
    job = far.claim_one()
    second = further_key(far)
    assert second.claim() == []
    good(second.report("complete", job))


@pytest.mark.parametrize("key", ["short", "x" * 65, "with space", "ünïcode-key", "a;b;c;d;e"])
def test_the_key_of_a_claim_has_a_form(far: RemoteClient, key: str) -> None:
    enqueue_remote()
    answer = far.send("claim", {}, Idempotency_Key=key)
    assert "Idempotency-Key" in refused(answer, 422, "invalid")
    assert not Job.objects.leased().exists()


@pytest.mark.django_db(transaction=True)
def test_the_same_claim_sent_many_times_at_once_is_made_once(far: RemoteClient) -> None:
    for _ in range(20):
        enqueue_remote()
    answers = race([lambda: far.claim(3, key="the-same-key")] * 6)
    assert len(answers[0]) == 3
    assert all(answer == answers[0] for answer in answers)
    assert Job.objects.leased().count() == 3


@pytest.mark.django_db(transaction=True)
def test_racing_claims_never_share_a_job_and_never_exceed_the_places() -> None:
    clients = [new_remote(concurrency=4) for _ in range(3)]
    for _ in range(40):
        enqueue_remote()
    answers = race([lambda c=client: c.claim(3) for client in clients for _ in range(3)])  # type: ignore[misc]
    ids = [job["job_id"] for answer in answers for job in answer]
    assert len(ids) == len(set(ids)) == 12
    held = [Job.objects.leased().filter(worker=client.worker).count() for client in clients]
    assert held == [4, 4, 4]


# -- reporting ---------------------------------------------------------------------------------------------------------


def test_progress_is_stored_and_renews_the_lease(far: RemoteClient) -> None:
    enqueue_remote()
    job = far.claim_one()
    Job.objects.update(claim_expires_at=database.now_plus(timedelta(minutes=1)))
    before = stored(job["job_id"]).claim_expires_at
    answer = good(far.report("progress", job, percent=41.5, step="half\0way " + "x" * 200))
    row = stored(job["job_id"])
    assert (row.progress_percent, row.current_step[:8], len(row.current_step)) == (41.5, "half�way", 100)
    assert row.claim_expires_at > before
    assert answer == {"job_id": job["job_id"], "status": "processing", "lease_seconds": 1800.0}


@pytest.mark.parametrize("result", [None, 1, "done", [1, {"a": None}], {"files": 3}])
def test_a_result_is_stored_and_completing_again_is_a_success(far: RemoteClient, result: Any) -> None:
    enqueue_remote()
    job = far.claim_one()
    for _ in range(2):
        assert good(far.report("complete", job, result=result))["status"] == "completed"
    assert (stored(job["job_id"]).result, outcomes_of(job["job_id"])) == (result, ["completed"])


def test_a_failure_waits_for_the_next_attempt_or_is_final(far: RemoteClient) -> None:
    first, second = enqueue_remote(), enqueue_remote()
    jobs = {job["job_id"]: job for job in far.claim(2)}
    told = {"type": "ValueError", "message": "no\0 such film", "traceback": "Traceback …"}
    for _ in range(2):
        assert good(far.report("fail", jobs[first], **told, retry_in_seconds=60))["status"] == "waiting"
        assert good(far.report("fail", jobs[second], **told, permanent=True))["status"] == "failed"
    attempt = Attempt.objects.get(job_id=first)
    assert (attempt.error_type, attempt.error, attempt.traceback) == (
        "ValueError",
        "no� such film",
        "Traceback …",
    )
    assert stored(first).run_at > stored(first).created_at
    assert outcomes_of(second) == ["failed"]


def test_a_released_job_is_pending_again_and_loses_no_attempt(far: RemoteClient) -> None:
    job_id = enqueue_remote()
    job = far.claim_one()
    for _ in range(2):
        assert good(far.report("release", job, reason="the machine is going down"))["status"] == "pending"
    assert (status_of(job_id), stored(job_id).attempt_number) == (Status.PENDING, 0)
    assert events_of(job_id) == ["released"]


# -- not yours, too late, over -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_the_job_of_another_worker_does_not_exist(far: RemoteClient, verb: str) -> None:
    owner = new_remote()
    enqueue_remote()
    running = owner.claim_one()
    enqueue_remote()
    completed = owner.claim_one()
    good(owner.report("complete", completed))
    enqueue_remote()
    failed = owner.claim_one()
    good(owner.report("fail", failed, permanent=True))
    enqueue_remote()
    released = owner.claim_one()
    good(owner.report("release", released))
    local = enqueue("tests.noop").pk
    token = claim_one(new_worker(types=["tests.noop"])).lease.token
    untouched = enqueue("tests.noop").pk
    before = everything()
    answers = [
        far.report(verb, job)
        for job in (
            running,
            completed,
            failed,
            released,
            {"job_id": local, "token": token},
            {"job_id": untouched, "token": 1},
            {"job_id": "0" * 26, "token": 1},
        )
    ]
    assert {(answer.status_code, answer.content) for answer in answers} == {
        (404, answers[0].content),
    }, "whether it exists, and in which state, is none of its business"
    assert refused(answers[0], 404, "not_found")
    heartbeat = ["last_heartbeat", "status"]
    assert without(everything(), heartbeat) == without(before, heartbeat)


def without(rows: Any, names: list[str]) -> Any:
    return [[{k: v for k, v in row.items() if k not in names} for row in group] for group in rows]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "job_id", ["x", "%00", "0" * 25, "0" * 27, "i" * 26, "..", "ü" * 26, "0" * 25 + "%0A"]
)
def test_what_is_no_id_is_not_found(far: RemoteClient, verb: str, job_id: str) -> None:
    assert refused(far.report(verb, {"job_id": job_id, "token": 1}), 404, "not_found")


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_token_changes_nothing_even_when_the_same_worker_holds_the_job_again(
    far: RemoteClient, verb: str
) -> None:
    job_id = enqueue_remote()
    stale = far.claim_one()
    expire(job_id)
    lifecycle.recover_expired()
    fresh = far.claim_one()
    before = everything()
    for token in (stale["token"], fresh["token"] + 1, 2**63 - 1):
        assert refused(far.report(verb, {"job_id": job_id, "token": token}), 409, "lease_lost")
    assert everything() == before
    good(far.report("complete", fresh))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("end", ["completed", "failed", "cancelled", "recovered"])
def test_a_job_that_is_over_cannot_be_changed(far: RemoteClient, verb: str, end: str) -> None:
    job_id = enqueue_remote()
    job = far.claim_one()
    match end:
        case "completed":
            good(far.report("complete", job, result="the one"))
        case "failed":
            good(far.report("fail", job, permanent=True))
        case "cancelled":
            lifecycle.cancel(job_id)
        case "recovered":
            expire(job_id)
            lifecycle.recover_expired()
    if (end, verb) in (("completed", "complete"), ("failed", "fail")):
        good(far.report(verb, job))  # the repeated report of the same outcome
        assert stored(job_id).result == ("the one" if end == "completed" else None)
        return
    before = everything()
    assert refused(far.report(verb, job), 409, "lease_lost")
    assert everything() == before


def test_an_outcome_reported_before_is_confirmed_to_its_reporter_only() -> None:
    me, other = new_worker(), new_worker()
    enqueue("tests.noop")
    lease = claim_one(me).lease
    lifecycle.complete(lease)
    lifecycle.complete(lease)
    with pytest.raises(LeaseLost):
        lifecycle.complete(Lease(lease.job_id, lease.token, other.pk))
    enqueue("tests.noop")
    lease = claim_one(me).lease
    failure = FailureReport("E", "no", permanent=True)
    assert lifecycle.fail(lease, failure) == lifecycle.fail(lease, failure)
    with pytest.raises(LeaseLost):
        lifecycle.fail(Lease(lease.job_id, lease.token, other.pk), failure)


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_while_the_database_is_away_the_answer_is_to_try_again(
    far: RemoteClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("server closed the connection")

    monkeypatch.setattr("jobs.remote_claims.find_bands", fail)
    answer = far.ask()
    assert "server closed" not in refused(answer, 503, "unavailable")
    assert answer["Retry-After"] == "5"
    monkeypatch.setattr("jobs.worker_keys._find", fail)
    assert refused(far.send("heartbeat", {"status": "idle"}), 503, "unavailable")


def test_a_bug_is_an_answer_in_json_that_gives_nothing_away(
    far: RemoteClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the secret reason")

    monkeypatch.setattr("jobs.remote_claims.find_bands", fail)
    assert "secret" not in refused(far.ask(), 500, "internal")
    assert "the secret reason" in caplog.text


@pytest.mark.parametrize(
    "path", ["worker", "worker/", "worker/nothing", "worker/jobs/x/explode", "jobs/a/b/c"]
)
def test_addresses_that_do_not_exist_answer_in_json(far: RemoteClient, path: str) -> None:
    assert refused(far._client.post(f"/api/{path}"), 404, "not_found")


def test_methods_that_do_not_exist_answer_in_json(far: RemoteClient) -> None:
    answer = far._client.get("/api/worker/claim")
    assert refused(answer, 405, "method_not_allowed")
    assert answer["Allow"] == "POST"
