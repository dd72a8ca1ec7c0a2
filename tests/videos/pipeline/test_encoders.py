"""Who encodes with what: what a worker says of itself, and the GPU first."""

from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.jobapp import fake_gpu, hevc
from tests.support.queue.actors import claimed_ids, new_worker
from tests.support.videos.video_encoders import _types_as_they_were as _types_as_they_were
from tests.support.videos.video_encoders import chunks, planned, register, stored_worker, without_gpu
from tests.support.videos.video_encoders import gpu as gpu
from tests.support.videos.video_site import accept, check_published, clip, current, two_qualities
from videos import storage, toolchains
from videos.media.exceptions import FfmpegFailed

pytestmark = pytest.mark.django_db


def test_a_worker_advertises_its_build_of_ffmpeg(videos_root: Path, settings: Settings) -> None:
    without_gpu(settings)
    worker = register()
    assert worker.capabilities == sorted(["big", f"ffmpeg:{toolchains.here().build}"])
    assert stored_worker(worker).capabilities == worker.capabilities


def test_a_worker_whose_test_encode_works_advertises_a_gpu(gpu: Settings) -> None:
    worker = register()
    pin = toolchains.here().pin(fake_gpu.NAME)
    assert pin.startswith(f"{toolchains.here().build} {fake_gpu.NAME}-")
    assert {"big", "gpu", fake_gpu.NAME, f"ffmpeg:{pin}"} <= set(worker.capabilities)


def test_a_worker_that_encodes_nothing_tries_nothing(gpu: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchains, "here", lambda: pytest.fail("nobody has asked for it"))
    assert register(job_types=["tests.noop"]).capabilities == ["big"]


def test_a_worker_that_cannot_find_out_has_other_work_to_do(
    videos_root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise FfmpegFailed("There is no ffmpeg.")

    monkeypatch.setattr(toolchains, "here", broken)
    assert register().capabilities == ["big"]
    (said,) = (record for record in caplog.records if record.name == "jobs.worker")
    assert said.levelname == "ERROR"
    assert said.exc_info
    assert said.exc_info[0] is FfmpegFailed


# -- which encoder -----------------------------------------------------------------------------------------------------


def test_without_a_gpu_it_is_libx264_and_any_worker_may_encode(videos_root: Path) -> None:
    transcode = planned(clip(50))
    assert transcode.encoder == "libx264"
    assert {job.type for job in chunks(transcode)} == {"videos.encode"}
    assert not Job.objects.filter(type=toolchains.WATCH).exists()
    assert len(claimed_ids(new_worker(), 1)) == 1


def test_the_probe_is_left_to_an_idle_gpu_worker_for_a_while(videos_root: Path) -> None:
    accept(clip(50))
    gpu, cpu = new_worker(capabilities=["gpu"]), new_worker()
    assert claimed_ids(cpu) == []
    assert len(claimed_ids(gpu)) == 1


def test_a_generation_is_pinned_to_the_gpu_and_only_workers_that_have_it_get_its_chunks(
    gpu: Settings,
) -> None:
    transcode = planned(two_qualities())
    assert transcode.plan is not None
    assert (transcode.encoder, transcode.plan["encoder"]) == (fake_gpu.NAME, fake_gpu.NAME)
    assert transcode.plan["ffmpeg"] == toolchains.here().pin(fake_gpu.NAME)
    mine = {job.pk for job in chunks(transcode)}
    cpu, other_gpu = new_worker(), new_worker(capabilities=["gpu", "h264_nvenc"])
    assert not mine & {*claimed_ids(cpu, 9), *claimed_ids(other_gpu, 9)}
    assert set(claimed_ids(new_worker(capabilities=["gpu", fake_gpu.NAME]), 9)) <= mine


def test_what_it_encodes_is_conformant(gpu: Settings) -> None:
    video = accept(two_qualities())
    run_due_jobs()
    check_published(video)
    assert {job.type for job in chunks(current(video))} == {fake_gpu.CHUNK_TYPE}
    assert current(video).encoder == fake_gpu.NAME
    rows = current(video).qualities.filter(quality__in=["480p", "360p"])
    assert set(rows.values_list("segments_completed", flat=True)) == {4}


def test_another_codec_goes_all_the_way(videos_root: Path, settings: Settings) -> None:
    """As if on a GPU: that is how an encoder other than libx264 is chosen."""
    fake_gpu.install(replace(hevc.LIBX265, hardware=True))
    settings.VIDEOS = {**settings.VIDEOS, "HARDWARE_ENCODERS": "libx265"}
    video = accept(two_qualities())
    run_due_jobs()
    check_published(video)
    codecs = current(video).renditions.filter(kind="video").values_list("codecs", flat=True)
    assert [name.startswith("hvc1.1.6.L") for name in codecs] == [True, True]
    assert (storage.generation(current(video)) / "poster.jpg").stat().st_size > 0
