"""The pipeline on real worker processes: shared, killed at any point, cancelled, drained."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from jobs.models import Attempt, Job, Status
from jobs.testing import run_due_jobs
from tests.conftest import RunManage, StartManage
from tests.support.processes import ManageProcess, wait_until
from tests.support.videos.video_site import accept, check_published, clip, current, files_in, two_qualities
from tests.support.videos.video_workers import ffmpegs_below, has_ended, worker_environment
from videos import intervening, storage
from videos.models import TranscodeStatus, Video, VideoStatus

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def environment(videos_root: Path) -> dict[str, str]:
    return worker_environment()


def test_three_workers_share_one_video(environment: dict[str, str], start_manage: StartManage) -> None:
    video = accept(two_qualities(250))
    workers = [start_manage("runworker", "--concurrency", "1", env=environment) for _ in range(3)]
    wait_until(lambda: has_ended(video), timeout=120)
    check_published(video)
    names = Attempt.objects.filter(job__type="videos.encode").values_list("worker_name", flat=True)
    assert len(names) == 5
    assert len(set(names)) > 1, "nobody did it all alone"
    assert all(worker.poll() is None for worker in workers)


def encoders_of(worker: ManageProcess) -> list[int]:
    """Its processes of ffmpeg, once they encode a chunk; a worker that starts tries its encoders, too."""
    encoding = Job.objects.filter(type="videos.encode", status=Status.PROCESSING, progress_percent__gt=0)
    return ffmpegs_below(worker.pid) if encoding.exists() else []


def test_a_video_deleted_during_a_retranscode_is_whole_when_it_comes_back(
    environment: dict[str, str], start_manage: StartManage
) -> None:
    video = accept(clip(250, (1280, 720)))
    run_due_jobs()
    generation = storage.generation(current(video))
    before, files = Video.objects.values().get(), files_in(generation)
    again = intervening.retranscode(video)
    worker = start_manage("runworker", env=environment | {"VIDEOS_PRESET": "veryslow"})
    wait_until(lambda: encoders_of(worker))
    intervening.delete(video)
    wait_until(lambda: not ffmpegs_below(worker.pid))
    again.refresh_from_db()
    assert again.status == TranscodeStatus.CANCELLED
    assert files_in(generation) == files
    intervening.restore(video)
    assert Video.objects.values().get() == before
    check_published(video)


def test_a_video_purged_during_its_encode_leaves_no_file(
    environment: dict[str, str], start_manage: StartManage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervening, "LAST_WRITES", timedelta(seconds=1))
    video = accept(clip(250, (1280, 720)))
    folder = storage.video_folder(video.pk)
    worker = start_manage("runworker", env=environment | {"VIDEOS_PRESET": "veryslow"})
    wait_until(lambda: encoders_of(worker))
    intervening.purge(video)
    wait_until(lambda: not ffmpegs_below(worker.pid) and not folder.exists())
    assert not Video.objects.exists()
    wait_until(lambda: not Job.objects.filter(status=Status.PROCESSING).exists())
    assert not folder.exists()
    assert files_in(storage.root()) == {}


def test_a_cancelled_transcode_has_no_ffmpeg_long_before_it_would_have_ended(
    environment: dict[str, str], start_manage: StartManage
) -> None:
    """Its handler asks whether to stop: nobody waits for the grace to end."""
    environment |= {
        "JOBS_CANCEL_GRACE": "1h",
        "VIDEOS_PRESET": "veryslow",
        "VIDEOS_SEGMENTS_PER_CHUNK": "30",
        "JOBS_TICK_INTERVAL": "1s",
    }
    video = accept(clip(750, (1280, 720)))
    worker = start_manage("runworker", env=environment)
    wait_until(lambda: encoders_of(worker))
    intervening.delete(video)
    wait_until(lambda: not ffmpegs_below(worker.pid))
    assert not Job.objects.filter(status=Status.PROCESSING).exists()
    assert Job.objects.get(type="videos.encode").progress_percent < 50
    assert worker.poll() is None


def test_no_ffmpeg_outlives_its_worker(environment: dict[str, str], start_manage: StartManage) -> None:
    environment |= {"VIDEOS_PRESET": "veryslow", "VIDEOS_SEGMENTS_PER_CHUNK": "30"}
    accept(clip(750, (1280, 720)))
    worker = start_manage("runworker", env=environment)
    encoders = wait_until(lambda: encoders_of(worker))
    worker.kill()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in encoders), timeout=20)


def test_a_draining_worker_gives_a_long_chunk_back_uncounted(
    environment: dict[str, str], start_manage: StartManage
) -> None:
    environment |= {"VIDEOS_PRESET": "veryslow", "VIDEOS_SEGMENTS_PER_CHUNK": "30"}
    video = accept(clip(750, (1280, 720)))
    worker = start_manage("runworker", env=environment)
    for pid in wait_until(lambda: encoders_of(worker)):
        os.kill(pid, signal.SIGSTOP)  # it takes longer than the worker waits
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=60) == 0
    encode = Job.objects.get(type="videos.encode")
    assert (encode.status, encode.attempt_number) == (Status.PENDING, 0)
    video.refresh_from_db()
    assert video.status == VideoStatus.PENDING


def test_addvideo_waits_and_says_where_to_watch(
    environment: dict[str, str], run_manage: RunManage, start_manage: StartManage, tmp_path: Path
) -> None:
    start_manage("runworker", env=environment)
    nonsense = tmp_path / "nonsense.mp4"
    nonsense.write_text("no video")
    done = run_manage("addvideo", str(clip()), str(nonsense), "--wait", env=environment, check=False)
    assert done.returncode == 1
    assert f"{nonsense}: " in done.stderr
    video = Video.objects.get()
    address = f"http://127.0.0.1:8000{video.get_absolute_url()}"
    assert done.stdout.count(address) == 2, "once when it was added, once when it was ready"
    check_published(video)
    run_manage("check_invariants", env=environment)
    again = run_manage("addvideo", str(clip()), "--wait", env=environment)
    assert address in again.stdout
    assert Video.objects.count() == 1


def test_who_no_longer_waits_stops_nothing(environment: dict[str, str], start_manage: StartManage) -> None:
    waiting = start_manage("addvideo", str(clip()), "--wait", env=environment)
    wait_until(lambda: "pending, 0 % (probe)" in waiting.read_output())
    assert "manage.py runworker" in waiting.read_output()
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(timeout=30) == 130
    assert "Traceback" not in waiting.read_output()
    assert Job.objects.get().status == Status.PENDING
