"""Who encodes with what: the GPU first, one encoder per generation, and none that is gone is waited for."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import LeaseLost, database, fleet, lifecycle, orchestrator, registry
from jobs.models import Attempt, Job, Status, Worker
from jobs.reconcile import reconcile
from jobs.testing import run_due_jobs
from tests.actors import claimed_ids, new_worker, race_outcomes, stored
from tests.conftest import StartManage
from tests.jobapp import fake_gpu, hevc
from tests.support import wait_until
from tests.video_site import accept, check_published, clip, current, only_transcode, two_qualities
from tests.workers import QUICK, wait_for_worker
from videos import generations, intervening, storage, toolchains
from videos.media import encode
from videos.media.encoders import ENCODERS
from videos.media.exceptions import FfmpegFailed
from videos.media.plan import EncodePlan
from videos.models import Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db

OTHER = "6.1-another"


@pytest.fixture(autouse=True)
def _types_as_they_were() -> Iterator[None]:
    types, encoders = dict(registry._types), dict(ENCODERS)
    yield
    registry._types.clear()
    registry._types.update(types)
    ENCODERS.clear()
    ENCODERS.update(encoders)


@pytest.fixture
def gpu(settings: Settings, videos_root: Path) -> Settings:
    """This process has a GPU, or so it seems; `settings.VIDEOS["HARDWARE_ENCODERS"] = "none"` takes it away."""
    fake_gpu.install()
    settings.VIDEOS = {**settings.VIDEOS, "HARDWARE_ENCODERS": fake_gpu.NAME}
    return settings


def without_gpu(settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "HARDWARE_ENCODERS": "none"}


def register(**options: Any) -> Worker:
    """This process as a worker, as `runworker` registers it."""
    types = options.pop("job_types", [kind.name for kind in registry.all_types()])
    return fleet.register(name="here", job_types=types, capabilities=["big"], concurrency=1)


def planned(path: Path) -> Transcode:
    """The transcode of a new video whose probe is done."""
    video = accept(path)
    run_due_jobs(limit=1)
    return only_transcode(video)


def chunks(transcode: Transcode) -> list[Job]:
    jobs = Job.objects.filter(workflow_id=transcode.workflow_id, type__startswith="videos.encode")
    return list(jobs.order_by("pk"))


def pin_to(transcode: Transcode, build: str) -> None:
    """As if another build of ffmpeg had planned it."""
    assert transcode.plan is not None
    transcode.plan["ffmpeg"] = build
    transcode.save()


def due() -> None:
    Job.objects.filter(status=Status.WAITING, blocked=False).update(
        run_at=database.now_minus(timedelta(seconds=1))
    )
    orchestrator.promote_due()


# -- what a worker says of itself ------------------------------------------------------------------------------------


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
    assert "cannot find out" in caplog.text


def stored_worker(worker: Worker) -> Worker:
    found: Worker = Worker.objects.get(pk=worker.pk)
    return found


# -- which encoder ---------------------------------------------------------------------------------------------------


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


# -- a GPU that is gone ----------------------------------------------------------------------------------------------


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
    assert "started over with libx264" in transcode.error
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


# -- another build of ffmpeg -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["videos.encode", "videos.audio"])
def test_a_job_for_another_build_goes_to_the_worker_that_has_it_and_loses_no_attempt(
    videos_root: Path, settings: Settings, stage: str
) -> None:
    transcode = planned(clip(50))
    build = toolchains.here().build
    pin_to(transcode, OTHER)
    new_worker(capabilities=[f"ffmpeg:{OTHER}"])
    job = Job.objects.get(workflow_id=transcode.workflow_id, type=stage)
    for turn in range(1, 6):
        runs = [run for run in run_due_jobs() if run.id == job.pk]
        assert [run.status for run in runs] == [Status.WAITING]
        left = stored(job).max_attempts - stored(job).attempt_number
        assert left == settings.JOBS.get("MAX_ATTEMPTS", 3), f"turn {turn} was counted"
        assert f"for a worker with {OTHER}" in stored(job).last_error
        due()
    transcode.refresh_from_db()
    assert transcode.is_active
    pin_to(transcode, build)  # that worker takes it
    due()
    run_due_jobs()
    check_published(transcode.video)


@pytest.mark.parametrize("state", [None, {"status": "offline"}, {"last_heartbeat": "2020-01-01T00:00:00Z"}])
def test_when_no_worker_has_the_build_any_more_the_generation_is_started_over(
    videos_root: Path, state: dict[str, Any] | None
) -> None:
    transcode = planned(two_qualities())
    run_due_jobs(limit=1)
    pin_to(transcode, OTHER)
    if state:
        new_worker(capabilities=[f"ffmpeg:{OTHER}"], **state)
    run_due_jobs(limit=1)
    transcode.refresh_from_db()
    assert (transcode.status, transcode.video.status) == (TranscodeStatus.CANCELLED, VideoStatus.PENDING)
    assert f"No worker has {OTHER} any more" in transcode.error
    run_due_jobs()
    video = transcode.video
    assert current(video).number == 2
    check_published(video)
    assert not Job.objects.filter(status=Status.FAILED).exists()


def test_a_retranscode_that_is_started_over_leaves_the_published_version_alone(videos_root: Path) -> None:
    video = accept(clip(50))
    run_due_jobs()
    before = Video.objects.values().get()
    second = intervening.retranscode(video, qualities=["360p"])
    run_due_jobs(limit=1)
    second.refresh_from_db()
    pin_to(second, OTHER)
    run_due_jobs(limit=1)
    assert Video.objects.values().get() == before
    third = video.transcodes.get(number=3)
    assert (third.requested_qualities, third.is_active) == (["360p"], True)
    run_due_jobs()
    assert current(video) == third


def test_of_two_workers_that_find_out_one_starts_over(videos_root: Path) -> None:
    transcode = planned(two_qualities())
    pin_to(transcode, OTHER)
    run_due_jobs()
    assert list(transcode.video.transcodes.values_list("number", flat=True)) == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_of_two_that_start_over_at_the_same_moment_one_does(videos_root: Path) -> None:
    transcode = planned(two_qualities())
    leases = [claimed.lease for claimed in lifecycle.claim(new_worker(types=["videos.encode"]), 2)]
    outcomes = race_outcomes(
        [partial(generations.start_over, transcode, reason="gone", lease=lease) for lease in leases]
    )
    assert sum(isinstance(outcome, LeaseLost) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Transcode) for outcome in outcomes) == 1
    assert generations.start_over(transcode, reason="gone") is None, "it has ended"
    assert list(transcode.video.transcodes.values_list("number", flat=True)) == [1, 2]
    run_due_jobs()
    check_published(transcode.video)


def test_a_worker_whose_ffmpeg_was_replaced_says_so(videos_root: Path, settings: Settings) -> None:
    without_gpu(settings)
    worker = register()
    Worker.objects.filter(pk=worker.pk).update(capabilities=["big", f"ffmpeg:{OTHER}"])
    toolchains.correct_record(worker.pk)
    assert stored_worker(worker).capabilities == worker.capabilities


# -- on real workers -------------------------------------------------------------------------------------------------


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
