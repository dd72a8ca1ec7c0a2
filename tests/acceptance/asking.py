"""What the walks through the documents ask of the site, and the people and workers who act in them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.test import Client

from jobs import database, lifecycle
from jobs.lifecycle import FailureReport, Lease
from jobs.models import Job, Worker
from jobs.testing import run_due_jobs
from tests.support.queue.actors import new_worker
from tests.support.remote.remote_client import SECRET, good
from videos.models import Video

NO = FailureReport("RuntimeError", "it broke")
FOR_GOOD = FailureReport("ValueError", "no such file", permanent=True)


def status_of(video: Video) -> str:
    return str(Video.objects.get(pk=video.pk).status)


def job_shown(client: Client, job: Job | str) -> dict[str, Any]:
    """GET /api/jobs/{id}"""
    shown: dict[str, Any] = good(client.get(f"/api/jobs/{job if isinstance(job, str) else job.pk}"))
    return shown


def worker_shown(client: Client, worker: Worker) -> dict[str, Any]:
    """Its row of GET /api/workers"""
    rows = good(client.get("/api/workers"))["workers"]
    (row,) = [row for row in rows if row["id"] == worker.pk]
    shown: dict[str, Any] = row
    return shown


def register(secret: str = SECRET, **told: Any) -> Any:
    """POST /api/worker/register"""
    return Client().post(
        "/api/worker/register",
        {"name": "encoder-7", **told},
        content_type="application/json",
        headers={"X-Admin-Secret": secret},
    )


def silent_for(worker: Worker, **period: float) -> None:
    """As if its last heartbeat, or without one its registration, were so long ago."""
    then = database.now_minus(timedelta(**period))
    heard = Worker.objects.filter(pk=worker.pk, last_heartbeat__isnull=False).update(last_heartbeat=then)
    if not heard:
        Worker.objects.filter(pk=worker.pk).update(registered_at=then)


def make_due() -> None:
    """As if every delay and backoff had passed."""
    Job.objects.filter(status="waiting", blocked=False).update(status="pending")


def seconds_left(job: Job | str) -> float:
    """Of the job's claim."""
    row = Job.objects.get(pk=job if isinstance(job, str) else job.pk)
    assert row.claim_expires_at is not None
    return float((row.claim_expires_at - database.read_clock()).total_seconds())


def claim_stage(type_name: str, n: int = 1) -> list[Lease]:
    """The leases of so many jobs of one stage, held by a new worker."""
    return [job.lease for job in lifecycle.claim(new_worker(types=[type_name]), n)]


def after_probe() -> None:
    """The probe of a new video runs: its chunks are pending."""
    Job.objects.filter(type="videos.probe", status="pending").update(priority=-100)
    (run,) = run_due_jobs(limit=1)
    assert run.type == "videos.probe"
