"""The ffmpeg of a far worker is gone, and its files with it, as soon as nobody wants them any more: real processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs import fleet, lifecycle, worker_keys
from jobs.lifecycle.recovering import recover_lost
from jobs.models import Job, Status, Worker
from jobs.testing import run_due_jobs
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.queue.actors import status_of
from tests.support.remote.far_workers import Far, Server, staged
from tests.support.remote.remote_site import lives
from tests.support.videos.media_clips import run_ffmpeg
from tests.support.videos.video_site import accept, clip
from tests.support.videos.video_workers import ffmpegs_below, worker_environment

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

SLOW = {"PRESET": "veryslow", "SEGMENTS_PER_CHUNK": "100"}


def cancel(far: Far, server: Server, job: Job) -> None:
    lifecycle.cancel([job.pk], reason="nobody wants it")


def disable(far: Far, server: Server, job: Job) -> None:
    fleet.disable([far.worker.pk])


def revoke(far: Far, server: Server, job: Job) -> None:
    worker_keys.revoke([far.record.pk])


def outdate(far: Far, server: Server, job: Job) -> None:
    Worker.objects.update(version="0.0.1")  # the one from the checkout cannot be too old
    server.restart(JOBS_MIN_WORKER_VERSION="7.5")


def lose_the_lease(far: Far, server: Server, job: Job) -> None:
    recover_lost(far.worker.pk, "somebody thinks that it is dead")


@pytest.fixture
def server(start_manage: StartManage, videos_root: Path, settings: Settings) -> Server:
    settings.VIDEOS = {**settings.VIDEOS, **SLOW}
    return Server(start_manage, worker_environment())


@pytest.fixture
def far(server: Server, start_manage: StartManage, tmp_path: Path) -> Far:
    """In the middle of a chunk that takes minutes."""
    film = tmp_path / "film.mp4"
    run_ffmpeg("-stream_loop", "19", "-i", clip(500, (640, 480)), "-map", "0", "-c", "copy", film)
    accept(film)
    run_due_jobs(limit=1)
    far = Far("shed", start_manage, tmp_path / "shed", server.port)
    far.start("--types", "videos.encode")
    return far


@pytest.mark.parametrize(
    ("misfortune", "becomes", "code"),
    [
        (cancel, Status.CANCELLED, None),
        (disable, Status.PENDING, None),
        (revoke, Status.PROCESSING, 1),
        (outdate, Status.PENDING, 1),
        (lose_the_lease, None, None),
    ],
)
def test_ffmpeg_stops_and_its_files_are_gone(
    far: Far,
    server: Server,
    misfortune: Callable[[Far, Server, Job], None],
    becomes: Status | None,
    code: int | None,
    record_property: Callable[[str, object], None],
) -> None:
    """`becomes`: None if the same worker may have claimed it again. `code`: of a worker that ends itself."""
    job = wait_until(far.runs, timeout=120)
    assert job is not None
    running = ffmpegs_below(far.process.pid)
    (folder,) = far.folder.glob(f"run/*/{job.pk}-{job.lease_token}")
    wait_until(lambda: any(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
    job.refresh_from_db()
    assert job.progress_percent < 50, "it would go on for long"

    misfortune(far, server, job)
    began = time.monotonic()
    wait_until(lambda: not any(map(lives, running)), interval=0.02)
    seconds = time.monotonic() - began
    record_property("seconds until ffmpeg was gone", round(seconds, 2))

    wait_until(lambda: not folder.exists())
    if code is not None:
        assert far.process.wait(60) == code, far.process.read_output()
        assert not far.leftovers()
    else:
        assert far.process.poll() is None, far.process.read_output()
    if becomes is not None:
        wait_until(lambda: status_of(job) == becomes)
    if misfortune is not revoke:  # nobody could say how that one ended: its lease runs out
        wait_until(lambda: not [path for path in staged() if f"{job.pk}-{job.lease_token}" in str(path)])
