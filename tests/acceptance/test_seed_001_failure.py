"""Seed 001, State Transitions 5 to 8: failures, silence, registration of workers."""

from __future__ import annotations

import logging
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from pytest_django import Settings

from jobs import database, enqueue, fleet, lifecycle, recovery
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Job, Worker, WorkerKey
from jobs.testing import run_due_jobs
from tests.acceptance.asking import (
    NO,
    job_shown,
    make_due,
    register,
    silent_for,
    status_of,
    worker_shown,
)
from tests.support.pages.videos_api_client import VIDEOS, bare, send
from tests.support.processes import wait_until
from tests.support.queue.actors import (
    Background,
    claim_one,
    events_of,
    expire,
    new_worker,
    stored,
)
from tests.support.queue.alerting import kinds, told_to
from tests.support.remote.remote_client import RemoteClient, enqueue_remote, good, new_remote, refused
from tests.support.remote.remote_fixtures import far as far
from tests.support.remote.remote_fixtures import remote_type as remote_type
from tests.support.remote.remote_site import RemoteSite
from tests.support.servers.webhooks import Webhook
from tests.support.videos.video_failures import _quick_retries as _quick_retries
from tests.support.videos.video_failures import encoded as encoded
from tests.support.videos.video_failures import fail_quality, published, run_all, run_out_of_attempts
from tests.support.videos.video_site import accept, two_qualities

pytestmark = pytest.mark.django_db


# -- 5. Job Failure ----------------------------------------------------------------------------------------------------


def test_a_long_error_is_cut(far: RemoteClient, admin_client: Client) -> None:
    """
    001 · 5. Job Failure · “`last_error = <error_message>` (truncated to max length)”
    """
    id = enqueue_remote()
    good(far.report("fail", far.claim_one(), type="ValueError", message="x" * 50_000))
    error = job_shown(admin_client, id)["last_error"]
    assert error.startswith("ValueError: xxx")
    assert len(error) == 4000


def test_an_attempt_is_counted_when_it_is_claimed(far: RemoteClient) -> None:
    """
    001 · 5. Job Failure · “`attempt_number = attempt_number + 1`”
    001 · 5. Job Failure · “Default: 3 attempts per job”
    Decided: counted at the claim, so a worker that dies without a word is counted too, and `max_attempts=3` gives
    three runs; counted at the failure, as here, it would give two.
    """
    id = enqueue_remote()
    runs = 0
    while stored(id).status != "failed":
        make_due()
        job = far.claim_one()
        runs += 1
        assert job["attempt"] == stored(id).attempt_number == runs
        good(far.report("fail", job))
    assert runs == 3


def test_a_failure_with_attempts_left_releases_the_claim(videos_root: Path) -> None:
    """
    001 · 5. Job Failure · “Release claim: `claimed_at = NULL`, `claim_expires_at = NULL`, `worker_id = NULL`”
    001 · 5. Job Failure · “Update video: `status = 'pending'` (ready for retry)”
    """
    video = bare("film")
    lifecycle.fail(claim_one().lease, NO)
    job = Job.objects.get()
    assert (job.claimed_at, job.claim_expires_at, job.worker_id) == (None, None, None)
    assert status_of(video) == "pending"


def test_the_last_failure_fails_the_video_with_its_error(videos_root: Path, admin_client: Client) -> None:
    """
    001 · 5. Job Failure · “Update video: `status = 'failed'`, `error_message = <error>`”
    """
    video = bare("film")
    lifecycle.fail(claim_one().lease, FailureReport("RuntimeError", "it broke", permanent=True))
    shown = good(admin_client.get(f"{VIDEOS}/{video.pk}"))
    assert (shown["status"], shown["error_message"]) == ("failed", "it broke")


def test_who_claimed_a_failed_job_and_when_stays_on_record() -> None:
    """
    001 · 5. Job Failure · “Keep claim data for audit trail”
    Decided: in the job's attempts, one row for each run with worker, times, error and traceback; the claim of the job
    itself is over.
    """
    job, worker = enqueue("tests.noop", max_attempts=1), new_worker(name="anna")
    lifecycle.fail(claim_one(worker).lease, NO)
    attempt = Attempt.objects.get(job=job)
    assert (attempt.worker_name, attempt.outcome, attempt.error) == ("anna", "failed", "it broke")
    assert attempt.finished_at is not None
    assert attempt.started_at <= attempt.finished_at
    assert stored(job).processed_by_worker_name == "anna"


@pytest.mark.parametrize("keep", [True, False])
def test_what_is_encoded_is_not_encoded_again_after_a_retry(
    videos_root: Path,
    settings: Settings,
    admin_client: Client,
    encoded: list[tuple[int, tuple[str, ...]]],
    keep: bool,
) -> None:
    """
    001 · 5. Job Failure · “Per-quality checkpoints preserved across retries”
    001 · 5. Job Failure · “Completed qualities not re-encoded (configurable)”
    001 · Edge Cases · “Completed qualities preserved on retry (configurable)”
    001 · State Transition Tests · “Job Retry: Test retry logic with various failure scenarios”
    """
    settings.VIDEOS = {**settings.VIDEOS, "KEEP_COMPLETED_QUALITIES": keep}
    video = accept(two_qualities(50))
    with pytest.MonkeyPatch.context() as broken:
        fail_quality(broken, "480p")
        run_out_of_attempts()
    assert (status_of(video), encoded) == ("failed", [(1, ("360p",))])
    good(send(admin_client, "POST", f"{VIDEOS}/{video.pk}/retry"))
    run_all()
    assert published(video) == ["480p", "360p"]
    assert encoded[1:] == [(1, ("480p",) if keep else ("480p", "360p"))]


# -- 6. Claim Expiration and Stale Detection ---------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_after_a_start_nobody_is_judged_for_two_minutes(remote_site: RemoteSite, settings: Settings) -> None:
    """
    001 · 6. Claim Expiration · “Wait for startup grace period (2 minutes after API start)”
    001 · 6. Claim Expiration · “2-minute hardcoded delay after API startup allows workers to reconnect”
    001 · 8. Worker Offline Detection · “Grace period: 2 minutes after API startup”
    001 · Edge Cases · “Stale checker waits 2 minutes after API start (hardcoded in worker_api.py)”
    001 · Edge Cases · “Allows workers to send heartbeats and reconnect”
    001 · Edge Cases · “Prevents false-positive stale detection”
    001 · Edge Cases · “Not configurable via environment variable”
    001 · Failure Recovery Tests · “API Restart: Test grace period and reconnection”
    Decided: the grace counts from the start of the site or of its database, whichever was last, and RECOVERY_GRACE
    (2 min) sets it.
    """
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": "1h"}
    far = new_remote("far-away")
    id = enqueue_remote()
    far.claim_one()
    remote_site.serve(JOBS_RECOVERY_GRACE="1h")
    due = enqueue("tests.noop", delay=3600)
    Job.objects.filter(pk=due.pk).update(run_at=database.now_minus(timedelta(seconds=1)))
    wait_until(lambda: far.heartbeat() and stored(due).status == "pending")  # the site keeps house
    expire(id)
    wait_until(recovery.sweep)  # the site may be sweeping just now
    assert stored(id).status == "processing"
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": "1ms"}
    wait_until(recovery.sweep)
    assert stored(id).status == "pending"


@pytest.mark.parametrize("never", [False, True])
def test_a_worker_without_a_heartbeat_for_five_minutes_is_offline(admin_client: Client, never: bool) -> None:
    """
    001 · 6. Claim Expiration · “`last_heartbeat < NOW() - 5 minutes` OR”
    001 · 6. Claim Expiration · “`last_heartbeat IS NULL AND registered_at < NOW() - 5 minutes`”
    001 · 6. Claim Expiration · “No heartbeat for 5+ minutes (offline threshold)”
    001 · 8. Worker Offline Detection · “Worker's `last_heartbeat < NOW() - WORKER_OFFLINE_THRESHOLD_MINUTES`”
    001 · 8. Worker Offline Detection · “OR worker never sent heartbeat (`last_heartbeat IS NULL`)”
    001 · Edge Cases · “Detects workers that registered but never became active”
    001 · Edge Cases · “Uses `registered_at` as fallback timestamp”
    001 · Related Issues · “NULL heartbeat detection (fixed with registered_at fallback)”
    """
    worker = new_worker(kind="remote")
    if never:
        Worker.objects.update(last_heartbeat=None)
    silent_for(worker, minutes=4.9)
    recovery.sweep()
    assert worker_shown(admin_client, worker)["state"] == "idle"
    silent_for(worker, minutes=5.1)
    recovery.sweep()
    assert worker_shown(admin_client, worker)["state"] == "offline"


@pytest.mark.django_db(transaction=True)
def test_a_heartbeat_that_meets_the_offline_check_wins() -> None:
    """
    001 · 6. Claim Expiration · “Mark offline only if heartbeat still stale”
    001 · 6. Claim Expiration · “Prevents race with concurrent heartbeat”
    001 · 6. Claim Expiration · “prevents marking worker offline after valid heartbeat”
    001 · 8. Worker Offline Detection · “Atomic conditional update to `status = 'offline'`”
    001 · Edge Cases · “UPDATE returns 0 rows”
    001 · Edge Cases · “Worker not marked offline”
    001 · Race Condition Tests · “Heartbeat Race: Heartbeat during offline check”
    """
    worker = new_worker(kind="remote")
    silent_for(worker, minutes=6)
    with transaction.atomic():
        fleet.heartbeat(worker, busy=False)
        check = Background(fleet.mark_silent_offline)
        check.wait_until_blocked()
    assert check.result() == []
    assert Worker.objects.get().status == "idle"


def test_an_expired_claim_is_released_whole(videos_root: Path) -> None:
    """
    001 · 6. Claim Expiration · “Clear claim: `claimed_at = NULL`, `claim_expires_at = NULL`, `worker_id = NULL`”
    001 · 6. Claim Expiration · “Reset video: `status = 'pending'`”
    001 · 6. Claim Expiration · “`claim_expires_at` passed (no progress updates)”
    001 · State Transition Tests · “Claim Expiration: Test expired claim detection and release”
    """
    video = bare("film")
    lease = claim_one(new_worker(kind="remote")).lease
    expire(lease.job_id)
    recovery.sweep()
    job = Job.objects.get()
    assert (job.status, job.claimed_at, job.claim_expires_at, job.worker_id) == ("pending", None, None, None)
    assert status_of(video) == "pending"
    assert "recovered" in events_of(job.id)


def test_a_released_job_has_no_step() -> None:
    """
    001 · 6. Claim Expiration · “`current_step = NULL`”
    """
    job = enqueue("tests.noop")
    lifecycle.report_progress([lifecycle.ProgressReport(claim_one().lease, 40, "transcode")])
    expire(job.id)
    recovery.sweep()
    assert (stored(job).status, stored(job).current_step) == ("pending", "")


@pytest.mark.parametrize(("expired", "offline"), [(True, True), (True, False), (False, True)])
def test_expiry_alone_releases_a_job_and_silence_alone_does_not(expired: bool, offline: bool) -> None:
    """
    001 · 6. Claim Expiration · “A job is only released when **both** conditions are met”
    001 · 6. Claim Expiration · “Only releases jobs with expired claims, not all jobs from offline workers”
    001 · 8. Worker Offline Detection · “Release any jobs with expired claims (see section 6)”
    001 · Edge Cases · “Worker is offline (no heartbeat)”
    001 · Edge Cases · “Claim has expired (`claim_expires_at < NOW()`)”
    001 · Edge Cases · “Prevents releasing jobs that might still complete”
    Decided: an expired claim releases the job whether or not its worker is offline, as this document's own table of
    states and seed 003 say: a worker whose handler hangs is not silent. Silence without expiry releases nothing.
    """
    job, worker = enqueue("tests.noop"), new_worker(kind="remote")
    claim_one(worker)
    if expired:
        expire(job.id)
    if offline:
        silent_for(worker, minutes=6)
    recovery.sweep()
    assert Worker.objects.get().status == ("offline" if offline else "idle")
    assert stored(job).status == ("pending" if expired else "processing")


@pytest.mark.django_db(transaction=True)
def test_a_recovered_job_is_told(webhook: Webhook, settings: Settings) -> None:
    """
    001 · 6. Claim Expiration · “Optional: Send webhook alert for stale job recovery”
    001 · Webhook Alerts · “`stale_job_recovered`: Job recovered from crashed worker”
    """
    settings.JOBS = told_to(webhook)
    job = enqueue("tests.noop")
    claim_one()
    expire(job.id)
    recovery.sweep()
    assert kinds() == ["stale_job_recovered"]
    run_due_jobs()
    (request,) = webhook.requests
    assert (request.json["kind"], request.json["facts"]["job"]) == ("stale_job_recovered", job.id)


# -- 7. Worker Registration --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("open_to_registration")
def test_registration_asks_for_the_admin_secret() -> None:
    """
    001 · 7. Worker Registration · “**Trigger:** Admin calls `POST /api/worker/register` (requires admin secret)”
    001 · 7. Worker Registration · “Verify `X-Admin-Secret` header matches `VLOG_WORKER_ADMIN_SECRET`”
    """
    assert refused(register("a wrong secret"), 401, "wrong_secret")
    assert not Worker.objects.exists()
    assert register().status_code == 201


@pytest.mark.usefixtures("open_to_registration")
def test_a_new_worker_gets_an_id_and_a_key_of_which_only_the_digest_is_kept() -> None:
    """
    001 · 7. Worker Registration · “`worker_id = <UUID>`”
    001 · 7. Worker Registration · “`api_key = <256-bit token>`”
    001 · 7. Worker Registration · “`key_hash = SHA256(api_key)`”
    001 · 7. Worker Registration · “`key_prefix = api_key[:8]` (for fast lookup)”
    001 · 7. Worker Registration · “`status = 'active'`”
    001 · 7. Worker Registration · “`key_hash`, `key_prefix`, `created_at`”
    001 · 7. Worker Registration · “Return `api_key` to admin (only shown once)”
    001 · 7. Worker Registration · “API keys are hashed (SHA-256) before storage”
    001 · 7. Worker Registration · “Only key prefix stored in plaintext for fast lookup”
    Decided: ids are ULIDs, as seed 004 has them.
    """
    given = good(register())
    key, worker = WorkerKey.objects.get(), Worker.objects.get(pk=given["worker_id"])
    assert len(given["api_key"]) * 6 >= 256
    assert (key.sha256, key.prefix) == (sha256(given["api_key"].encode()).hexdigest(), given["api_key"][:8])
    assert key.created_at is not None
    assert worker.status == "active"
    assert given["api_key"] not in str([*WorkerKey.objects.values(), *Worker.objects.values()])


@pytest.mark.usefixtures("open_to_registration")
def test_a_worker_that_registers_is_heard_of() -> None:
    """
    001 · 7. Worker Registration · “`last_heartbeat = NOW()`”
    """
    worker = Worker.objects.get(pk=good(register())["worker_id"])
    assert worker.last_heartbeat is not None
    assert abs(worker.last_heartbeat - database.read_clock()) < timedelta(seconds=30)


@pytest.mark.usefixtures("open_to_registration")
@pytest.mark.parametrize("told", [{"capabilities": ["x" * 99] * 200}, {"metadata": {"pod": "x" * 10_300}}])
def test_what_a_worker_tells_of_itself_is_bounded(told: dict[str, Any]) -> None:
    """
    001 · 7. Worker Registration · “Validate capabilities and metadata JSON (10KB max each)”
    """
    assert refused(register(**told), 422, "invalid")
    assert (Worker.objects.count(), WorkerKey.objects.count()) == (0, 0)


def test_a_revoked_key_opens_nothing(far: RemoteClient, admin_client: Client) -> None:
    """
    001 · 7. Worker Registration · “Keys can be revoked by admin”
    """
    far.heartbeat()
    good(admin_client.post(f"/api/workers/{far.worker.pk}/revoke"))
    assert refused(far.send("heartbeat", {"status": "idle"}), 401, "key_revoked")


@pytest.mark.parametrize("header", ["Authorization", "X-Worker-API-Key"])
def test_the_worker_api_asks_for_a_key_and_ignores_cookies(
    far: RemoteClient, admin_client: Client, header: str
) -> None:
    """
    001 · 7. Worker Registration · “Worker API uses API key authentication (not cookies)”
    """

    def beat(client: Client, **headers: str) -> Any:
        body = {"status": "idle"}
        return client.post("/api/worker/heartbeat", body, content_type="application/json", headers=headers)

    assert refused(beat(admin_client), 401, "not_authenticated")
    good(beat(Client(), **{header: f"Bearer {far.key}" if header == "Authorization" else far.key}))


# -- 8. Worker Offline Detection ---------------------------------------------------------------------------------------


def test_an_offline_worker_has_no_current_job_and_comes_back_by_a_heartbeat(
    far: RemoteClient, admin_client: Client
) -> None:
    """
    001 · 8. Worker Offline Detection · “Clear `current_job_id`”
    001 · 8. Worker Offline Detection · “Worker comes back online with next heartbeat”
    001 · 8. Worker Offline Detection · “Status transitions: `offline -> idle` or `offline -> busy`”
    001 · State Transition Tests · “Worker Offline: Test heartbeat timeout and recovery”
    """
    id = enqueue_remote()
    far.claim_one()
    silent_for(far.worker, minutes=6)
    expire(id)
    recovery.sweep()
    assert worker_shown(admin_client, far.worker)["state"] == "offline"
    assert worker_shown(admin_client, far.worker)["running"] == 0
    far.heartbeat("idle")
    assert worker_shown(admin_client, far.worker)["state"] == "idle"


def test_the_return_of_a_worker_is_logged(far: RemoteClient, caplog: pytest.LogCaptureFixture) -> None:
    """
    001 · 8. Worker Offline Detection · “Recovery logged for debugging”
    001 · Edge Cases · “stale checker logs recovery”
    """
    silent_for(far.worker, minutes=6)
    recovery.sweep()
    with caplog.at_level(logging.INFO, logger="jobs"):
        caplog.clear()
        far.heartbeat("idle")
    assert [record for record in caplog.records if far.worker.name in record.getMessage()] != []


def test_the_threshold_is_a_setting(settings: Settings) -> None:
    """
    001 · 8. Worker Offline Detection · “Configurable via `VLOG_WORKER_OFFLINE_THRESHOLD_MINUTES`”
    001 · 8. Worker Offline Detection · “Default: 5 minutes (`WORKER_OFFLINE_THRESHOLD_MINUTES`)”
    """
    worker = new_worker(kind="remote")
    silent_for(worker, minutes=6)
    settings.JOBS = {**settings.JOBS, "OFFLINE_THRESHOLD": "10m"}
    assert fleet.mark_silent_offline() == []
    settings.JOBS = {name: value for name, value in settings.JOBS.items() if name != "OFFLINE_THRESHOLD"}
    assert fleet.mark_silent_offline() == [worker.name]


@pytest.mark.django_db(transaction=True)
def test_the_site_looks_after_remote_workers_without_a_local_one(
    remote_site: RemoteSite, settings: Settings
) -> None:
    """
    001 · 6. Claim Expiration · “Background task `check_stale_jobs()` (runs every 60 seconds)”
    001 · 8. Worker Offline Detection · “**Trigger:** Background task `check_stale_jobs()`”
    Decided: any living local worker does it, one at a time across the fleet; where there is none, the site does.
    """
    settings.JOBS = {**settings.JOBS, "TICK_INTERVAL": "50ms", "SWEEP_INTERVAL": "100ms"}
    remote_site.serve()
    far = new_remote("far-away")
    id = enqueue_remote()
    new_remote("other").claim_one()
    expire(id)
    wait_until(lambda: far.heartbeat() and stored(id).status == "pending")
