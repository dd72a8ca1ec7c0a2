"""What is seen of a worker that comes over HTTP: busy from its claim on, with its jobs; revoked; forgotten; and back
under its name."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs import database, lifecycle, remote, worker_keys
from jobs.exceptions import WorkerNameTaken, WorkerRevoked
from jobs.models import Attempt, Job, Status, Worker, WorkerKey, WorkerStatus
from jobs.remote import Announcement
from tests.support.pages.dashboard_pages import show
from tests.support.queue.actors import (
    Background,
    expire,
    new_worker,
    outcomes_of,
    race,
    status_of,
)
from tests.support.queue.expiry import without_grace as without_grace  # fixtures
from tests.support.remote.remote_client import (
    REMOTE,
    SECRET,
    RemoteClient,
    enqueue_remote,
    good,
    refused,
)
from tests.support.remote.remote_fixtures import far as far  # fixtures
from tests.support.remote.remote_fixtures import remote_type as remote_type

pytestmark = pytest.mark.django_db
racing = pytest.mark.django_db(transaction=True)


def row_of(client: Client, name: str = "far-away") -> dict[str, Any]:
    """As GET /api/workers shows it."""
    (row,) = [row for row in good(client.get("/api/workers"))["workers"] if row["name"] == name]
    found: dict[str, Any] = row
    return found


def act(client: Client, worker: Worker, verb: str) -> Any:
    return client.post(f"/api/workers/{worker.pk}/{verb}")


def badges(page: str) -> set[str]:
    return set(re.findall(r'<span class="sp-badge[^"]*" data-status="(\w+)"', page))


def stored_status(far: RemoteClient) -> str:
    return str(Worker.objects.get(pk=far.worker.pk).status)


# -- busy --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["complete", "fail", "release"])
def test_a_worker_is_busy_from_its_claim_to_the_end_of_its_last_job(
    far: RemoteClient, admin_client: Client, end: str
) -> None:
    assert row_of(admin_client)["current_job_id"] is None
    first, second = enqueue_remote(), enqueue_remote()
    jobs = [*far.claim(1), *far.claim(1)]
    row = row_of(admin_client)
    assert (row["state"], row["running"], row["current_job_id"]) == ("busy", 2, first)
    assert [job["id"] for job in row["current_jobs"]] == [first, second]
    assert {job["type"] for job in row["current_jobs"]} == {REMOTE}
    good(far.report(end, jobs[0]))
    row = row_of(admin_client)
    assert (row["state"], row["current_job_id"]) == ("busy", second)
    good(far.report(end, jobs[1]))
    row = row_of(admin_client)
    assert (row["state"], row["current_job_id"], row["current_jobs"]) == ("idle", None, [])
    assert stored_status(far) == WorkerStatus.IDLE


def test_the_dashboard_and_the_admin_show_it_busy(far: RemoteClient, admin_client: Client) -> None:
    enqueue_remote()
    far.claim_one()
    for page in (show(admin_client), admin_client.get("/admin/jobs/worker/").content.decode()):
        assert badges(page) >= {"busy"}
        assert not badges(page) & {"idle", "active"}


@pytest.mark.parametrize("said", ["idle", "active", "busy", None])
def test_what_it_says_of_itself_does_not_hide_that_it_holds_a_job(
    far: RemoteClient, said: str | None
) -> None:
    job_id = enqueue_remote()
    job = far.claim_one()
    answer = good(far.send("heartbeat", {"status": said} if said else b""))
    assert (answer["state"], answer["current_job_id"]) == ("busy", job_id)
    assert [lease["job_id"] for lease in answer["leases"]] == [job_id]
    good(far.report("complete", job))
    answer = good(far.send("heartbeat", {"status": said} if said else b""))
    assert (answer["state"], answer["current_job_id"]) == (said or "active", None)


def test_a_claim_that_gets_nothing_leaves_it_idle(far: RemoteClient) -> None:
    assert far.claim() == []
    assert stored_status(far) == WorkerStatus.IDLE


@racing
def test_a_job_that_ends_while_the_next_is_claimed_leaves_it_busy(far: RemoteClient) -> None:
    """The end looks for other jobs before the claim is committed, and must look again when it has the lock."""
    enqueue_remote()
    first = far.claim_one()
    enqueue_remote()
    with database.atomic():
        far.claim_one()
        ended = Background(partial(remote_end, far, first))
        if database.is_postgres():
            ended.wait_until_blocked()
    ended.result()
    assert stored_status(far) == WorkerStatus.BUSY


def remote_end(far: RemoteClient, job: dict[str, Any]) -> None:
    good(far.report("complete", job))


# -- revoked -----------------------------------------------------------------------------------------------------------


def test_a_worker_whose_last_key_is_revoked_is_shown_as_revoked_and_not_online(
    far: RemoteClient, admin_client: Client
) -> None:
    online = good(admin_client.get("/api/queue"))["workers"]
    assert good(act(admin_client, far.worker, "revoke"))["worker"]["state"] == "revoked"
    assert row_of(admin_client)["state"] == "revoked"
    assert good(admin_client.get("/api/queue"))["workers"] == online - 1
    assert not Worker.objects.online().exists()
    for page in (
        show(admin_client),
        admin_client.get("/admin/jobs/worker/").content.decode(),
        admin_client.get(f"/admin/jobs/worker/{far.worker.pk}/change/").content.decode(),
    ):
        assert "revoked" in badges(page)
    worker_keys.issue(far.worker)
    assert row_of(admin_client)["state"] == "offline", "with a new key it may come again"


def test_a_worker_with_another_key_goes_on(far: RemoteClient, admin_client: Client) -> None:
    record, _ = worker_keys.issue(far.worker)
    worker_keys.revoke([record.pk])
    assert row_of(admin_client)["state"] == "idle"


@racing
def test_a_heartbeat_that_waits_for_the_revocation_does_not_bring_the_worker_back(far: RemoteClient) -> None:
    with database.atomic():
        worker_keys.revoke_all(far.worker)
        beat = Background(partial(remote.heartbeat, far.worker, status="idle", announcement=Announcement()))
        beat.wait_until_blocked()
    assert isinstance(beat.outcome(), WorkerRevoked)
    assert stored_status(far) == WorkerStatus.OFFLINE


# -- forgotten ---------------------------------------------------------------------------------------------------------


def test_an_offline_worker_is_forgotten_and_its_name_stays_in_the_history(
    far: RemoteClient, admin_client: Client
) -> None:
    job_id = enqueue_remote()
    good(far.report("complete", far.claim_one()))
    assert refused(act(admin_client, far.worker, "forget"), 409, "worker_online")
    far.heartbeat("stopped")
    assert "far-away" in show(admin_client)
    answer = good(act(admin_client, far.worker, "forget"))
    assert answer == {"id": far.worker.pk, "name": "far-away"}
    assert "far-away" not in show(admin_client)
    assert good(admin_client.get("/api/workers"))["workers"] == []
    assert (Worker.objects.count(), WorkerKey.objects.count()) == (0, 0)
    assert Attempt.objects.get(job=job_id).worker_name == "far-away"
    assert Job.objects.get(pk=job_id).processed_by_worker_name == "far-away"
    assert LogEntry.objects.get().object_repr == "far-away"
    assert refused(far.ask(), 401, "key_unknown")
    assert refused(act(admin_client, far.worker, "forget"), 404, "not_found")


def test_a_revoked_worker_is_forgotten_once_its_leases_are_over(
    far: RemoteClient, admin_client: Client
) -> None:
    job_id = enqueue_remote()
    far.claim_one()
    good(act(admin_client, far.worker, "revoke"))
    assert refused(act(admin_client, far.worker, "forget"), 409, "worker_holds_jobs")
    expire(job_id)
    lifecycle.recover_expired()
    good(act(admin_client, far.worker, "forget"))
    assert (status_of(job_id), outcomes_of(job_id)) == (Status.PENDING, ["lost"])


@racing
def test_a_worker_that_comes_back_in_the_moment_of_being_forgotten_is_one_or_the_other(
    far: RemoteClient, admin_client: Client
) -> None:
    for _ in range(5):
        Worker.objects.update(status=WorkerStatus.OFFLINE)
        forgotten, beat = race(
            [lambda: act(admin_client, far.worker, "forget"), lambda: far.send("heartbeat", b"")]
        )
        known = Worker.objects.exists()
        assert (forgotten.status_code, beat.status_code) in (
            [(409, 200)] if known else [(200, 200), (200, 401)]
        )
        if not known:
            break


# -- back under its name -----------------------------------------------------------------------------------------------


def register(name: str = "far-away") -> Any:
    return Client().post(
        "/api/worker/register",
        {"name": name},
        content_type="application/json",
        headers={"X-Admin-Secret": SECRET},
    )


@pytest.fixture
def open_to_registration(settings: Any, without_grace: None) -> None:
    settings.JOBS = {**settings.JOBS, "WORKER_ADMIN_SECRET": SECRET, "REGISTRATION_RATE": 1000}


@pytest.mark.usefixtures("open_to_registration")
@pytest.mark.parametrize("how", ["stopped", "silent", "revoked", "marked"])
def test_an_offline_worker_comes_back_under_its_name(far: RemoteClient, how: str) -> None:
    job_id = enqueue_remote()
    far.claim_one()
    match how:
        case "stopped":
            far.heartbeat("stopped")
        case "silent":  # for long, and nobody has swept
            Worker.objects.update(last_heartbeat=database.now_minus(timedelta(minutes=30)))
        case "revoked":
            worker_keys.revoke_all(far.worker)
        case "marked":
            Worker.objects.update(status=WorkerStatus.OFFLINE)
    answer = register()
    assert answer.status_code == 201, answer.content
    given = answer.json()
    assert given["worker_id"] == far.worker.pk, "with its history"
    assert refused(far.ask(), 401, "key_revoked")
    assert WorkerKey.objects.usable().count() == 1
    again = RemoteClient(Worker.objects.get(), given["api_key"])
    assert (again.worker.status, again.worker.stopped_at) == (WorkerStatus.ACTIVE, None)
    assert (status_of(job_id), outcomes_of(job_id)) == (Status.PENDING, ["lost"])
    assert again.claim_one()["job_id"] == job_id


@pytest.mark.usefixtures("open_to_registration")
def test_the_name_of_a_worker_that_is_online_stays_taken(far: RemoteClient) -> None:
    detail = refused(register(), 409, "name_taken")
    assert "--" not in detail, "no option of a command"
    far.heartbeat()
    assert WorkerKey.objects.get().revoked_at is None


@pytest.mark.usefixtures("open_to_registration")
def test_the_name_of_a_local_worker_stays_taken() -> None:
    new_worker(name="far-away", status=WorkerStatus.OFFLINE)
    assert refused(register(), 409, "name_taken")


@pytest.mark.usefixtures("open_to_registration")
def test_a_disabled_worker_that_comes_back_is_still_disabled(far: RemoteClient) -> None:
    Worker.objects.update(status=WorkerStatus.OFFLINE, disabled=True)
    again = RemoteClient(far.worker, register().json()["api_key"])
    assert again.heartbeat()["order"] == "disabled"
    assert refused(again.ask(), 403, "worker_disabled")


@racing
@pytest.mark.usefixtures("open_to_registration")
@pytest.mark.parametrize("is_known", [True, False])
def test_of_two_registrations_of_one_name_at_once_one_wins(is_known: bool) -> None:
    if is_known:
        remote.register("far-away", Announcement())
        Worker.objects.update(status=WorkerStatus.OFFLINE)
    answers = race([register] * 4)
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    (won,) = [answer.json() for answer in answers if answer.status_code == 201]
    assert WorkerKey.objects.usable().count() == 1
    RemoteClient(Worker.objects.get(), won["api_key"]).heartbeat()


@racing
def test_a_registration_that_waits_for_another_finds_the_worker_online(without_grace: None) -> None:
    remote.register("far-away", Announcement())
    Worker.objects.update(status=WorkerStatus.OFFLINE)
    with database.atomic():
        remote.register("far-away", Announcement())
        other = Background(partial(remote.register, "far-away", Announcement()))
        other.wait_until_blocked()
    assert isinstance(other.outcome(), WorkerNameTaken)
    assert WorkerKey.objects.usable().count() == 1
