"""Workers and ffmpegs that are killed at random moments of a video's making."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from jobs.models import Attempt, Job, Outcome
from tests.conftest import StartManage
from tests.support.processes import ManageProcess, wait_until
from tests.support.queue.workers import wait_for_worker
from tests.support.videos.video_site import accept, check_published, current, two_qualities
from tests.support.videos.video_workers import ffmpegs_below, finished_parts, has_ended, worker_environment
from videos import manifests, storage
from videos.models import Video, VideoStatus

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def environment(videos_root: Path) -> dict[str, str]:
    return worker_environment()


def wait_for_parts(video: Video, count: int) -> None:
    wait_until(lambda: len(finished_parts(video)) >= count or has_ended(video), interval=0.01)


def part_of(job: Job) -> str:
    """The name of the manifest that the job writes at its end."""
    if job.type == "videos.audio":
        return f"{manifests.audio_name(job.payload['track'])}.json"
    return f"{manifests.chunk_name(job.payload['chunk'])}.json"


def wait_for_ffmpeg(video: Video, worker: ManageProcess) -> list[int]:
    """The process ids of running ffmpegs; none only if the video has ended."""
    wait_until(lambda: ffmpegs_below(worker.pid) or has_ended(video), interval=0.002)
    return ffmpegs_below(worker.pid)


@pytest.mark.parametrize("run", range(int(os.environ.get("CHAOS", "4"))))
def test_a_kill_at_any_moment_costs_no_finished_chunk(
    environment: dict[str, str], start_manage: StartManage, run: int
) -> None:
    """CHAOS=20 kills in twenty runs; a worker and an ffmpeg in turn, twice each, at random points of the work."""
    target = ("worker", "ffmpeg")[run % 2]
    chance = random.Random(run)
    environment |= {"VIDEOS_PRESET": "slower"}
    video = accept(two_qualities(250))
    kept: dict[str, int] = {}
    kills = 0

    def start() -> ManageProcess:
        worker = start_manage("runworker", "--concurrency", "2", env=environment)
        wait_for_worker(worker)
        return worker

    worker = start()
    for parts in sorted(chance.sample(range(6 if target == "worker" else 4), 2)):
        wait_for_parts(video, parts)
        time.sleep(chance.uniform(0, 0.3))
        victims = [worker.pid] if target == "worker" else wait_for_ffmpeg(video, worker)
        kept |= finished_parts(video)
        for pid in victims[:1]:
            with contextlib.suppress(ProcessLookupError):  # it has just finished
                os.kill(pid, signal.SIGKILL)
                kills += 1
        if target == "worker":
            worker.wait()
            worker = start()
    wait_until(lambda: has_ended(video))
    assert video.status == VideoStatus.READY, video.error_message
    assert kills > 0
    check_published(video)
    assert kept.items() <= finished_parts(video).items(), "a finished chunk was encoded again"
    attempts = Attempt.objects.filter(job__type__in=["videos.encode", "videos.audio"]).select_related("job")
    assert attempts.filter(outcome=Outcome.COMPLETED).count() <= 6, "once each, or found done by reconcile"
    wasted = [one for one in attempts.exclude(outcome=Outcome.COMPLETED) if part_of(one.job) not in kept]
    assert len(wasted) <= 2 * kills, "a kill costs what was running, two jobs at most"
    assert not list(storage.generation(current(video)).glob(".chunk-*")), (
        "the leftovers of the dead are removed"
    )
