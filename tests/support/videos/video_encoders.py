"""What the tests of encoders share: a GPU that seems to be there, and transcodes that are planned."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import database, fleet, orchestrator, registry
from jobs.invariants import broken_rules
from jobs.models import Job, Status, Worker
from jobs.testing import run_due_jobs
from tests.jobapp import fake_gpu
from tests.support.videos.video_site import accept, only_transcode
from videos.media.encoders import ENCODERS
from videos.models import Transcode


@pytest.fixture(autouse=True)
def _types_as_they_were() -> Iterator[None]:
    types, encoders = dict(registry._types), dict(ENCODERS)
    yield
    registry._types.clear()
    registry._types.update(types)
    ENCODERS.clear()
    ENCODERS.update(encoders)


@pytest.fixture
def gpu(settings: Settings, videos_root: Path) -> Iterator[Settings]:
    """This process has a GPU, or so it seems; `settings.VIDEOS["HARDWARE_ENCODERS"] = "none"` takes it away."""
    fake_gpu.install()
    settings.VIDEOS = {**settings.VIDEOS, "HARDWARE_ENCODERS": fake_gpu.NAME}
    yield settings
    assert broken_rules() == []  # while its name is known


def without_gpu(settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "HARDWARE_ENCODERS": "none"}


def register(**options: Any) -> Worker:
    """This process as a worker, as `runworker` registers it."""
    types = options.pop("job_types", [kind.name for kind in registry.all_types()])
    return fleet.register(name="here", job_types=types, capabilities=["big"], concurrency=1)


def stored_worker(worker: Worker) -> Worker:
    found: Worker = Worker.objects.get(pk=worker.pk)
    return found


def planned(path: Path) -> Transcode:
    """The transcode of a new video whose probe is done."""
    video = accept(path)
    run_due_jobs(limit=1)
    return only_transcode(video)


def chunks(transcode: Transcode) -> list[Job]:
    jobs = Job.objects.filter(workflow_id=transcode.workflow_id, type__startswith="videos.encode")
    return list(jobs.order_by("pk"))


def due() -> None:
    Job.objects.filter(status=Status.WAITING, blocked=False).update(
        run_at=database.now_minus(timedelta(seconds=1))
    )
    orchestrator.promote_due()
