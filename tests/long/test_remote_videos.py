"""Videos made by remote workers: a real web server, `sprocket-worker` processes, each with a folder and no database."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from jobs import worker_keys
from jobs.models import Attempt, Job, Outcome
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.remote.far_workers import Far, Server, Work, local_worker, staged
from tests.support.servers.wire import Wire
from tests.support.videos.video_site import accept, check_published, clip, current
from tests.support.videos.video_workers import ffmpegs_below, has_ended, worker_environment
from videos.models import Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

FAR_TYPES = ("videos.encode", "videos.audio")
LEASE = "3s"


@pytest.fixture
def environment(videos_root: Path) -> dict[str, str]:
    """More attempts than there are misfortunes: all of them may strike the same chunk."""
    return worker_environment() | {
        "JOBS_CLAIM_DURATION": LEASE,
        "JOBS_STALE_TIMEOUT": "60s",
        "JOBS_MAX_ATTEMPTS": "8",
    }


@pytest.fixture
def server(start_manage: StartManage, environment: dict[str, str]) -> Server:
    return Server(start_manage, environment)


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    wire = Wire(server.port)
    yield wire
    wire.close()


def test_a_far_worker_encodes_what_a_local_one_publishes(
    environment: dict[str, str], server: Server, start_manage: StartManage, tmp_path: Path
) -> None:
    video = accept(clip(150, (640, 480)))
    far = Far("shed", start_manage, tmp_path / "shed", server.port)
    far.start()
    local_worker(start_manage, environment, "--exclude-types", ",".join(FAR_TYPES))
    wait_until(lambda: has_ended(video), timeout=120)
    assert video.status == VideoStatus.READY, video.error_message
    check_published(video)
    made = Attempt.objects.filter(job__type__in=FAR_TYPES)
    assert set(made.values_list("worker_name", "outcome")) == {("shed", Outcome.COMPLETED)}
    assert sum(server.requests("source").values()) == 1, "the source was fetched once for all its jobs"
    wait_until(lambda: not far.leftovers())
    assert staged() == []


def test_three_videos_by_two_far_workers_and_a_local_one_through_every_misfortune(
    environment: dict[str, str], server: Server, wire: Wire, start_manage: StartManage, tmp_path: Path
) -> None:
    environment |= {"VIDEOS_PRESET": "veryslow"}
    shed = Far("shed", start_manage, tmp_path / "shed", server.port)
    attic = Far("attic", start_manage, tmp_path / "attic", wire.port)
    local = local_worker(start_manage, environment)
    work = Work()
    for _ in range(3):
        work.hand_in()
    shed.start()
    attic.start()

    late = attic.freeze(work)
    wire.cut()  # for longer than the lease
    attic.thaw()
    victim = shed.freeze(work)
    os.kill(shed.process.pid, signal.SIGKILL)
    shed.process.wait()
    wait_until(lambda: _was_taken(late, attic) and _was_run_again(victim), timeout=120)
    wait_until(lambda: not ffmpegs_below(attic.process.pid), timeout=60)
    wire.mend()
    mended_at = timezone.now()

    shed.start()
    shed.freeze(work)
    worker_keys.revoke([shed.record.pk])
    shed.thaw()
    assert shed.process.wait(60) == 1, shed.process.read_output()
    assert not ffmpegs_below(shed.process.pid)
    assert not shed.leftovers()

    def went_on() -> bool:
        assert attic.process.poll() is None, attic.process.read_output()
        work.keep_up()
        completed = Attempt.objects.filter(worker_id=attic.worker.pk, outcome=Outcome.COMPLETED)
        return completed.filter(started_at__gt=mended_at).exists()

    wait_until(went_on, timeout=120)
    wait_until(lambda: all(has_ended(video) for video in work.videos), timeout=300)
    for video in work.videos:
        assert video.status == VideoStatus.READY, video.error_message
        check_published(video)
    _check_books(work.videos)
    assert local.poll() is None
    wait_until(lambda: not attic.leftovers(), timeout=60)
    wait_until(lambda: staged() == [], timeout=60)
    _check_downloads(server, [shed, attic])


def _was_run_again(job: Job) -> bool:
    return bool(Attempt.objects.filter(job=job).count() > 1)


def _was_taken(job: Job, from_whom: Far) -> bool:
    job.refresh_from_db()
    return bool(job.worker_id != from_whom.worker.pk)


def _check_books(videos: list[Video]) -> None:
    """Nothing was published twice, nothing was completed twice."""
    for video in videos:
        assert list(video.transcodes.values_list("status", flat=True)) == [TranscodeStatus.PUBLISHED]
        workflow = current(video).workflow_id
        jobs = Job.objects.filter(workflow_id=workflow)
        completed = Attempt.objects.filter(job__in=jobs, outcome=Outcome.COMPLETED)
        assert max(Counter(completed.values_list("job_id", flat=True)).values()) == 1
    assert Transcode.objects.count() == len(videos)


def _check_downloads(server: Server, fars: list[Far]) -> None:
    """No worker fetched a source a second time. A fetch that was broken off is gone on with (206)."""
    video_of = {job.pk: job.payload.get("transcode_id") for job in Job.objects.all()}
    whole = [
        (video_of[job], count) for (job, status), count in server.requests("source").items() if status == 200
    ]
    per_video: Counter[int] = Counter()
    for video, count in whole:
        per_video[video] += count
    assert max(per_video.values()) <= len(fars), per_video
