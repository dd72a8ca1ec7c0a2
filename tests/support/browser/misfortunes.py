"""What sticks out of a narrow page if anything does: errors, names and payloads that nothing wraps by itself.

For Backstage.call. The rows are a test's own, so it does not matter what other tests have left behind.
"""

from __future__ import annotations

UNBREAKABLE = "https://media.example.com/" + "a0b1c2d3e4f5" * 25


def fail_far_away() -> tuple[str, str]:
    """A failed job and the worker that ran it: their ids."""
    from django.db.models.functions import Now

    from jobs.models import Outcome, WorkerStatus
    from jobs.ulid import new_ulid
    from tests.support.queue.factories import AttemptFactory, JobFactory, WorkerFactory

    name = f"far-away-{new_ulid()}-{'x' * 60}"
    worker = WorkerFactory.create(name=name, status=WorkerStatus.OFFLINE, stopped_at=Now())
    job = JobFactory.create(
        failed=True,
        payload={"address": UNBREAKABLE},
        last_error=f"DownloadError: {UNBREAKABLE}",
        attempt_number=1,
        max_attempts=1,
        lease_token=1,
        processed_by_worker_name=worker.name,
    )
    AttemptFactory.create(
        job=job,
        outcome=Outcome.FAILED,
        finished_at=Now(),
        worker_id=worker.pk,
        worker_name=worker.name,
        error_type="DownloadError",
        error=UNBREAKABLE,
        traceback=f"Traceback (most recent call last):\nDownloadError: {UNBREAKABLE}",
    )
    return job.pk, worker.pk
