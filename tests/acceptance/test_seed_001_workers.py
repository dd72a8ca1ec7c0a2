"""Seed 001, Worker Status and Quality Progress: what is stored of workers and of qualities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from jobs import fleet, lifecycle, recovery
from jobs.models import Job, Worker
from jobs.testing import run_due_jobs
from tests.acceptance.asking import (
    after_probe,
    claim_stage,
    register,
    silent_for,
    worker_shown,
)
from tests.support.pages.videos_api_client import VIDEOS
from tests.support.remote.remote_client import REMOTE, RemoteClient, enqueue_remote, good, refused
from tests.support.remote.remote_fixtures import far as far
from tests.support.remote.remote_fixtures import remote_type as remote_type
from tests.support.videos.video_failures import _quick_retries as _quick_retries
from tests.support.videos.video_failures import fail_quality, run_all
from tests.support.videos.video_site import accept, only_transcode, two_qualities

pytestmark = pytest.mark.django_db


# -- Worker Status -----------------------------------------------------------------------------------------------------


def registered(**told: Any) -> RemoteClient:
    given = good(register(types=[REMOTE], **told))
    return RemoteClient(Worker.objects.get(pk=given["worker_id"]), given["api_key"])


def say(client: RemoteClient, status: str) -> None:
    """A heartbeat; one that is busy has claimed a job."""
    if status == "busy" and not Job.objects.leased().exists():
        enqueue_remote()
        client.claim_one()
    client.heartbeat(status)


@pytest.mark.usefixtures("open_to_registration")
def test_a_worker_is_registered_active_then_idle_or_busy(admin_client: Client) -> None:
    """
    001 · Worker Status · “"active"   # Recently heartbeated, available for work”
    001 · Worker Status · “"idle"     # Active but not currently processing (used for GPU priority)”
    001 · Worker Status · “"busy"     # Currently processing a job”
    001 · Worker State Machine · “[*] --> active: Registration (/api/worker/register)”
    001 · Worker State Machine · “active --> idle: Heartbeat (status=idle)”
    001 · Worker State Machine · “active --> busy: Heartbeat (status=busy)”
    """
    client = registered()
    seen = [worker_shown(admin_client, client.worker)["state"]]
    for status in ("idle", "busy"):
        say(client, status)
        seen.append(worker_shown(admin_client, client.worker)["state"])
    assert seen == ["active", "idle", "busy"]


@pytest.mark.parametrize("status", ["idle", "busy"])
def test_a_silent_worker_is_offline_until_its_next_heartbeat(
    far: RemoteClient, admin_client: Client, status: str
) -> None:
    """
    001 · Worker Status · “"offline"  # No recent heartbeat”
    001 · Worker State Machine · “idle --> offline: No heartbeat for threshold”
    001 · Worker State Machine · “busy --> offline: No heartbeat for threshold”
    001 · Worker State Machine · “offline --> idle: Heartbeat received (recovery)”
    001 · Worker State Machine · “offline --> busy: Heartbeat received (with job)”
    001 · Worker State Machine · “Threshold: 5 minutes by default”
    """
    say(far, status)
    silent_for(far.worker, minutes=4.9)
    recovery.sweep()
    assert worker_shown(admin_client, far.worker)["state"] == status
    silent_for(far.worker, minutes=5.1)
    recovery.sweep()
    assert worker_shown(admin_client, far.worker)["state"] == "offline"
    say(far, status)
    assert worker_shown(admin_client, far.worker)["state"] == status


@pytest.mark.usefixtures("open_to_registration")
@pytest.mark.parametrize("status", ["active", "idle", "busy"])
def test_a_worker_that_an_admin_disables_stays_disabled(admin_client: Client, status: str) -> None:
    """
    001 · Worker Status · “"disabled" # Manually disabled by admin”
    001 · Worker State Machine · “active --> disabled: Admin disables worker”
    001 · Worker State Machine · “idle --> disabled: Admin disables worker”
    001 · Worker State Machine · “busy --> disabled: Admin disables worker”
    001 · Worker State Machine · “disabled --> [*]: Permanent state”
    Decided: disabled is a flag of its own that no heartbeat and no sweep undoes; an admin's enable does.
    """
    client = registered(concurrency=2)
    if status != "active":
        say(client, status)
    good(admin_client.post(f"/api/workers/{client.worker.pk}/disable"))
    client.heartbeat("idle")
    recovery.sweep()
    assert worker_shown(admin_client, client.worker)["state"] == "disabled"
    enqueue_remote()
    assert refused(client.ask(), 403, "worker_disabled")
    good(admin_client.post(f"/api/workers/{client.worker.pk}/enable"))
    assert len(client.claim()) == 1


def test_a_heartbeat_is_expected_every_thirty_seconds(far: RemoteClient) -> None:
    """
    001 · Worker State Machine · “Worker sends heartbeat every 30 seconds”
    """
    assert far.heartbeat()["heartbeat_seconds"] == 30


@pytest.mark.parametrize("end", ["complete", "fail"])
def test_a_worker_is_busy_from_its_claim_to_its_report(
    far: RemoteClient, admin_client: Client, end: str
) -> None:
    """
    001 · Worker State Machine · “idle --> busy: Worker claims job”
    001 · Worker State Machine · “busy --> idle: Worker completes/fails job”
    001 · Worker Status · “`current_job_id`: Job currently being processed (NULL = idle)”
    001 · 2. Job Claiming · “Update worker: `current_job_id = <job_id>`, `status = 'busy'`”
    001 · 4. Job Completion · “`current_job_id = NULL`”
    001 · 4. Job Completion · “`status = 'idle'`”
    001 · 5. Job Failure · “Update worker: `current_job_id = NULL`, `status = 'idle'`”
    """
    far.heartbeat("idle")
    enqueue_remote()
    assert worker_shown(admin_client, far.worker)["current_job_id"] is None
    job = far.claim_one()
    shown = worker_shown(admin_client, far.worker)
    assert (shown["state"], shown["current_job_id"]) == ("busy", job["job_id"])
    good(far.report(end, job))
    shown = worker_shown(admin_client, far.worker)
    assert (shown["state"], shown["current_job_id"]) == ("idle", None)


@pytest.mark.usefixtures("open_to_registration")
def test_a_worker_is_known_by_id_name_kind_and_what_it_tells(admin_client: Client) -> None:
    """
    001 · Worker Status · “`worker_id`: UUID for this worker (unique)”
    001 · Worker Status · “`worker_name`: Human-readable name (optional)”
    001 · Worker Status · “`worker_type`: "local" or "remote"”
    001 · Worker Status · “`registered_at`: When worker was registered”
    001 · Worker Status · “`last_heartbeat`: Last heartbeat timestamp (NULL = never heartbeated)”
    001 · Worker Status · “`status`: Current worker status”
    001 · Worker Status · “`metadata`: JSON metadata (Kubernetes pod info, etc.)”
    Decided: ids are ULIDs; a name is unique and required of a remote worker, since its history and keys go with it.
    """
    far = registered(metadata={"pod": "worker-7"})
    near = fleet.register(name="near", job_types=[], capabilities=[], concurrency=1)
    shown = worker_shown(admin_client, far.worker)
    assert (shown["name"], shown["kind"], shown["state"]) == ("encoder-7", "remote", "active")
    assert shown["metadata"] == {"pod": "worker-7"}
    assert shown["registered_at"] is not None
    assert worker_shown(admin_client, near)["kind"] == "local"
    assert worker_shown(admin_client, near)["last_heartbeat"] is None
    assert shown["id"] != near.pk


@pytest.mark.usefixtures("open_to_registration")
@pytest.mark.parametrize("told", [["gpu", "h264"], {"gpu": True, "h264": True, "av1": False}])
def test_capabilities_are_told_as_a_list_or_as_an_object(admin_client: Client, told: Any) -> None:
    """
    001 · Worker Status · “`capabilities`: JSON metadata about worker capabilities (GPU, codecs, etc.)”
    """
    assert {"gpu", "h264"} <= set(
        worker_shown(admin_client, registered(capabilities=told).worker)["capabilities"]
    )


# -- Quality Progress --------------------------------------------------------------------------------------------------


def qualities_of(client: Client, video: Any) -> dict[str, str]:
    shown = good(client.get(f"{VIDEOS}/{video.pk}"))
    return {row["quality"]: row["status"] for row in shown["qualities"]}


def test_each_quality_has_a_status_of_its_own(videos_root: Path, admin_client: Client) -> None:
    """
    001 · Quality Progress · “`status`: Current encoding status”
    001 · Quality Progress · “Not started yet”
    001 · Quality Progress · “Currently encoding”
    001 · Quality Progress · “Successfully encoded”
    001 · Quality Progress · “Not applicable (quality > source resolution)”
    """
    video = accept(two_qualities())
    after_probe()
    rows = only_transcode(video).qualities
    assert rows.get(quality="480p").status == "pending"
    assert rows.get(quality="1080p").status == "skipped"
    (lease,) = claim_stage("videos.encode")
    assert qualities_of(admin_client, video)["480p"] == "in_progress"
    lifecycle.release([lease])
    run_due_jobs()
    assert qualities_of(admin_client, video)["480p"] == "completed"


def test_a_quality_that_cannot_be_encoded_has_failed_with_its_error(
    videos_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    001 · Quality Progress · “Encoding failed”
    001 · Quality Progress · “`error_message`: Error if encoding failed”
    """
    settings.VIDEOS = {**settings.VIDEOS, "CRITICAL_QUALITIES": "360p"}
    video = accept(two_qualities())
    fail_quality(monkeypatch, "480p")
    run_all()
    row = only_transcode(video).qualities.get(quality="480p")
    assert (row.status, "too hard" in row.error_message) == ("failed", True)


def test_a_quality_counts_its_segments(videos_root: Path) -> None:
    """
    001 · Quality Progress · “`quality`: Quality variant name (e.g., "1080p")”
    001 · Quality Progress · “`segments_total`: Total HLS segments to encode”
    001 · Quality Progress · “`segments_completed`: Number of segments finished”
    001 · Quality Progress · “`progress_percent`: Quality-specific progress (0-100)”
    001 · Quality Progress · “`started_at`: When quality encoding started”
    001 · Quality Progress · “`completed_at`: When quality encoding finished”
    """
    video = accept(two_qualities())
    after_probe()
    Job.objects.filter(type="videos.encode").update(priority=-1000)
    run_due_jobs(limit=1)
    row = only_transcode(video).qualities.get(quality="480p")
    assert (row.segments_total, row.segments_completed, row.progress_percent) == (4, 2, 50)
    assert (row.started_at is not None, row.completed_at) == (True, None)
    run_due_jobs(limit=1)
    row.refresh_from_db()
    assert (row.segments_completed, row.progress_percent, row.status) == (4, 100, "completed")
    assert row.started_at is not None
    assert row.completed_at is not None
    assert row.completed_at > row.started_at
