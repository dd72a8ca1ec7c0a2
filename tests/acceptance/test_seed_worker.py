"""Seed 001: a worker that was written from the document alone takes a video from its upload to `ready`."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.models import Attempt, Job, Worker, WorkerKind, WorkerStatus
from tests.conftest import StartManage
from tests.support.remote.far_workers import Server
from tests.support.remote.seed_worker import SeedWorker
from tests.support.videos.video_site import accept, check_published, clip
from tests.support.videos.video_workers import worker_environment
from videos import toolchains
from videos.models import VideoStatus

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "a secret of the administrators"


def test_a_worker_written_from_the_seed_transcodes_a_video(
    videos_root: Path, start_manage: StartManage, tmp_path: Path
) -> None:
    server = Server(start_manage, {**worker_environment(), "JOBS_WORKER_ADMIN_SECRET": SECRET})
    builds = [name.removeprefix("ffmpeg:") for name in toolchains.here().capabilities if " " not in name]
    worker = SeedWorker(
        f"http://127.0.0.1:{server.port}/api",
        SECRET,
        tmp_path / "seed",
        worker_name="from-the-seed",
        worker_type="remote",
        capabilities={"gpu": False, "ffmpeg": builds},
        metadata={"pod": "vlog-worker-1"},
    )
    video = accept(clip(50))
    assert video.status == VideoStatus.PENDING
    worker.work()
    video.refresh_from_db()
    assert video.status == VideoStatus.READY, (video.error_message, worker.statuses)
    check_published(video)
    assert set(worker.statuses) == {"completed"}
    assert set(Attempt.objects.values_list("worker_name", "outcome")) == {("from-the-seed", "completed")}
    assert set(Job.objects.values_list("type", flat=True)) >= {
        "videos.probe",
        "videos.encode",
        "videos.audio",
    }
    (row,) = Worker.objects.filter(pk=worker.worker_id)
    assert (row.kind, row.status) == (WorkerKind.REMOTE, WorkerStatus.ACTIVE)
