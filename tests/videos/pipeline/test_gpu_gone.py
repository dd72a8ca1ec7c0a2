"""A GPU that is gone, or cannot do it, is not waited for: the generation is started over with libx264."""

import os
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import lifecycle
from jobs.models import Attempt, Job, Status, Worker
from jobs.reconcile import reconcile
from jobs.testing import run_due_jobs
from tests.conftest import StartManage
from tests.jobapp import fake_gpu
from tests.support.processes import wait_until
from tests.support.queue.actors import claimed_ids, new_worker
from tests.support.queue.workers import QUICK, wait_for_worker
from tests.support.videos.video_encoders import _types_as_they_were as _types_as_they_were
from tests.support.videos.video_encoders import chunks, due, planned, without_gpu
from tests.support.videos.video_encoders import gpu as gpu
from tests.support.videos.video_site import accept, check_published, clip, current, two_qualities
from videos import intervening, toolchains
from videos.media import encode
from videos.media.exceptions import FfmpegFailed
from videos.media.plan import EncodePlan
from videos.models import Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db


def look(transcode: Transcode) -> None:
    """The next look after the generation's GPU; it takes an ordinary worker."""
    due()
    (claimed,) = lifecycle.claim(new_worker(types=[toolchains.WATCH]), 1)
    toolchains.look_after(**claimed.payload)
    lifecycle.complete(claimed.lease)


def test_chunks_for_a_gpu_that_is_gone_are_started_over_with_libx264(gpu: Settings) -> None:
    transcode = planned(two_qualities())
    run_due_jobs(limit=1)  # one chunk is done
    without_gpu(gpu)
    look(transcode)
    transcode.refresh_from_db()
    assert transcode.status == TranscodeStatus.CANCELLED
    assert "libx264" in transcode.error
    video = transcode.video
    assert video.status == VideoStatus.PENDING
    run_due_jobs()
    check_published(video)
    assert (current(video).number, current(video).encoder) == (2, "libx264")
    assert {job.type for job in chunks(current(video))} == {"videos.encode"}


def test_libx264_stays_even_if_the_gpu_comes_back(gpu: Settings) -> None:
    transcode = planned(clip(50))
    without_gpu(gpu)
    look(transcode)
    gpu.VIDEOS = {**gpu.VIDEOS, "HARDWARE_ENCODERS": fake_gpu.NAME}
    run_due_jobs()
    assert current(transcode.video).encoder == "libx264"


@pytest.mark.parametrize("alive", ["idle", "busy", "leased"])
def test_as_long_as_somebody_has_it_the_generation_waits(gpu: Settings, alive: str) -> None:
    transcode = planned(two_qualities())
    pin = f"ffmpeg:{toolchains.here().pin(fake_gpu.NAME)}"
    if alive == "leased":  # by a worker that has not been heard of for long, but holds its chunk
        worker = new_worker(capabilities=[fake_gpu.NAME], last_heartbeat="2020-01-01T00:00:00Z")
        assert claimed_ids(worker)
    else:
        new_worker(capabilities=["gpu", fake_gpu.NAME, pin], status=alive)
    without_gpu(gpu)
    for _ in range(3):
        look(transcode)
    transcode.refresh_from_db()
    assert transcode.is_active
    assert Job.objects.active().filter(type=toolchains.WATCH).count() == 1


@pytest.mark.parametrize(
    "state", [{"disabled": True}, {"draining": True}, {"status": "offline"}, {"types": ["videos.probe"]}]
)
def test_a_gpu_worker_that_will_not_take_them_is_not_waited_for(gpu: Settings, state: dict[str, Any]) -> None:
    transcode = planned(clip(50))
    new_worker(capabilities=["gpu", fake_gpu.NAME, f"ffmpeg:{toolchains.here().pin(fake_gpu.NAME)}"], **state)
    without_gpu(gpu)
    look(transcode)
    transcode.refresh_from_db()
    assert not transcode.is_active


def test_nobody_looks_after_a_generation_that_is_done(gpu: Settings) -> None:
    video = accept(clip(50))
    run_due_jobs()
    look(current(video))
    assert not Job.objects.active().filter(type=toolchains.WATCH).exists()
    assert current(video).number == 1


def test_a_retried_or_reconciled_generation_is_looked_after_again(gpu: Settings) -> None:
    transcode = planned(clip(50))
    Job.objects.filter(type=toolchains.WATCH).delete()
    intervening.cancel(transcode.video)
    intervening.retry(transcode.video)
    watches = Job.objects.active().filter(type=toolchains.WATCH)
    assert watches.count() == 1
    watches.delete()
    reconcile(dry_run=True)
    assert watches.count() == 0
    reconcile()
    reconcile()
    assert watches.count() == 1


@pytest.mark.parametrize("failing", [("480p", "360p"), ("360p",)])
def test_what_a_gpu_cannot_encode_is_started_over_with_libx264(
    gpu: Settings, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    real, tried = encode.encode_chunk, []

    def fails(plan: EncodePlan, number: int, **arguments: Any) -> Any:
        if plan.encoder == fake_gpu.NAME and any(r.name in failing for r in plan.renditions):
            tried.append(number)
            raise FfmpegFailed(
                "ffmpeg ended with exit status 1.", returncode=1, stderr="too small for this card"
            )
        return real(plan, number, **arguments)

    monkeypatch.setattr(encode, "encode_chunk", fails)
    gpu.VIDEOS = {**gpu.VIDEOS, "CRITICAL_QUALITIES": "none"}
    transcode = planned(two_qualities(50))
    new_worker(capabilities=[f"ffmpeg:{toolchains.here().pin(fake_gpu.NAME)}"])  # it is not gone
    for _ in range(3):
        run_due_jobs(raise_errors=False)
        due()
    run_due_jobs()
    transcode.refresh_from_db()
    assert "too small for this card" in transcode.error
    assert len(tried) > 2, "it was tried again first"
    video = transcode.video
    assert (current(video).number, current(video).encoder) == (2, "libx264")
    assert [r.name for r in current(video).renditions.filter(kind="video")] == ["480p", "360p"]
    check_published(video)


@pytest.mark.django_db(transaction=True)
def test_a_killed_gpu_worker_is_replaced_by_the_cpu(
    videos_root: Path, settings: Settings, start_manage: StartManage
) -> None:
    fake_gpu.install()
    settings.VIDEOS = {**settings.VIDEOS, "PRESET": "veryslow"}
    shared = QUICK | {f"VIDEOS_{key}": str(value) for key, value in settings.VIDEOS.items()}
    shared |= {"TESTS_FAKE_GPU": "1", "JOBS_GPU_PATIENCE": "2s", "JOBS_HEARTBEAT_INTERVAL": "1s"}
    gpu = start_manage("runworker", "--name", "gpu", env=shared | {"VIDEOS_HARDWARE_ENCODERS": fake_gpu.NAME})
    wait_for_worker(gpu)
    wait_until(lambda: Worker.objects.filter(name="gpu", last_heartbeat__isnull=False).exists())
    cpu = start_manage("runworker", "--name", "cpu", env=shared | {"VIDEOS_HARDWARE_ENCODERS": "none"})
    wait_for_worker(cpu)
    assert set(Worker.objects.get(name="gpu").capabilities) > {"gpu", fake_gpu.NAME}
    assert "gpu" not in Worker.objects.get(name="cpu").capabilities
    video = accept(clip(500))
    wait_until(lambda: Job.objects.filter(type=fake_gpu.CHUNK_TYPE, status=Status.COMPLETED).exists())
    encodes = Attempt.objects.filter(job__type__startswith="videos.encode")
    assert set(encodes.values_list("worker_name", flat=True)) == {"gpu"}
    gpu.kill()
    wait_until(lambda: Video.objects.get().status == VideoStatus.READY, timeout=200)
    assert current(video).encoder == "libx264"
    check_published(video)
    assert os.environ.get("TESTS_FAKE_GPU") is None
    mixed = Job.objects.filter(workflow_id=current(video).workflow_id, type=fake_gpu.CHUNK_TYPE)
    assert not mixed.exists()
