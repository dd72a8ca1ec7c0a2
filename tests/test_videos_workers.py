"""The pipeline on real worker processes: shared, killed at any point, cancelled, drained."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.models import Attempt, Job, Status
from tests.conftest import RunManage, StartManage
from tests.support import wait_until
from tests.video_site import accept, check_published, clip, current, two_qualities
from tests.workers import QUICK, wait_for_worker
from videos import intervening, storage
from videos.models import Video, VideoStatus

pytestmark = pytest.mark.django_db(transaction=True)

StartWorker = Callable[[], object]


@pytest.fixture
def environment(videos_root: Path) -> dict[str, str]:
    """The same settings for worker processes."""
    from django.conf import settings

    return QUICK | {f"VIDEOS_{key}": str(value) for key, value in settings.VIDEOS.items()}


def has_ended(video: Video) -> bool:
    video.refresh_from_db()
    return video.status in (VideoStatus.READY, VideoStatus.FAILED)


def ffmpegs_below(pid: int) -> list[int]:
    """The process ids of every ffmpeg that this process (or a child of it) has started."""
    found, parents = [], {pid}
    rows = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            rows.append((int(entry.name), int(rest.split()[1]), name))
    for own, parent, name in sorted(rows):
        if parent in parents:
            parents.add(own)
            if "ffmpeg" in name:
                found.append(own)
    return found


def finished_chunks(video: Video) -> dict[str, int]:
    """When each manifest was written: what is finished is never written again."""
    folder = storage.video_folder(video.pk) / "g1" / "manifests"
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}


def test_three_workers_share_one_video(environment: dict[str, str], start_manage: StartManage) -> None:
    video = accept(two_qualities(250))
    workers = [start_manage("runworker", "--concurrency", "1", env=environment) for _ in range(3)]
    wait_until(lambda: has_ended(video), timeout=120)
    check_published(video)
    names = Attempt.objects.filter(job__type="videos.encode").values_list("worker_name", flat=True)
    assert len(names) == 5
    assert len(set(names)) > 1, "nobody did it all alone"
    assert all(worker.poll() is None for worker in workers)


@pytest.mark.parametrize("target", ["worker", "ffmpeg"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("CHAOS", "2"))))
def test_a_kill_at_any_moment_costs_no_finished_chunk(
    environment: dict[str, str], start_manage: StartManage, target: str, seed: int
) -> None:
    chance = random.Random(f"{target}-{seed}")
    video = accept(two_qualities(250))
    worker = start_manage("runworker", "--concurrency", "2", env=environment)
    wait_for_worker(worker)
    kept: dict[str, int] = {}
    kills = 0
    while not has_ended(video) and kills < 2:
        time.sleep(chance.uniform(0.1, 1.2))
        victims = [worker.pid] if target == "worker" else ffmpegs_below(worker.pid)
        for pid in victims[:1]:
            kept |= finished_chunks(video)
            os.kill(pid, signal.SIGKILL)
            kills += 1
        if target == "worker":
            worker = start_manage("runworker", "--concurrency", "2", env=environment)
            wait_for_worker(worker)
    wait_until(lambda: has_ended(video), timeout=120)
    assert video.status == VideoStatus.READY, video.error_message
    check_published(video)
    assert kept.items() <= finished_chunks(video).items(), "a finished chunk was encoded again"
    assert not list(storage.generation(current(video)).glob(".chunk-*")), (
        "the leftovers of the dead are removed"
    )


def test_a_cancelled_transcode_has_no_ffmpeg_after_two_seconds(
    environment: dict[str, str], start_manage: StartManage
) -> None:
    environment |= {"VIDEOS_PRESET": "veryslow", "JOBS_TICK_INTERVAL": "1s"}
    video = accept(clip(750, (1280, 720)))
    worker = start_manage("runworker", env=environment)
    wait_until(lambda: ffmpegs_below(worker.pid), timeout=120)
    intervening.delete(video)
    started = time.monotonic()
    wait_until(lambda: not ffmpegs_below(worker.pid), timeout=5)
    assert time.monotonic() - started < 2
    assert not Job.objects.filter(status=Status.PROCESSING).exists()
    assert worker.poll() is None


def test_no_ffmpeg_outlives_its_worker(environment: dict[str, str], start_manage: StartManage) -> None:
    environment |= {"VIDEOS_PRESET": "veryslow"}
    accept(clip(750, (1280, 720)))
    worker = start_manage("runworker", env=environment)
    encoders = wait_until(lambda: ffmpegs_below(worker.pid), timeout=120)
    worker.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in encoders), timeout=2)


def test_a_draining_worker_gives_a_long_chunk_back_uncounted(
    environment: dict[str, str], start_manage: StartManage
) -> None:
    environment |= {"VIDEOS_PRESET": "veryslow", "VIDEOS_SEGMENTS_PER_CHUNK": "30"}
    video = accept(clip(750, (1280, 720)))
    worker = start_manage("runworker", env=environment)
    wait_until(lambda: ffmpegs_below(worker.pid), timeout=120)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=15) == 0
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
    assert "nonsense.mp4: The file is text, not a video." in done.stderr
    video = Video.objects.get()
    assert f"is ready: http://127.0.0.1:8000{video.get_absolute_url()}" in done.stdout
    check_published(video)
    assert "Every rule holds." in run_manage("check_invariants", env=environment).stdout
    again = run_manage("addvideo", str(clip()), "--wait", env=environment)
    assert "is there already" in again.stdout
