"""The source goes away, or changes, while ffmpeg reads it: a clear failure that harms nothing published."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.models import Job, Status
from jobs.testing import run_due_jobs
from tests.conftest import StartManage
from tests.support.processes import ManageProcess, wait_until
from tests.support.videos.codes import error_types
from tests.support.videos.video_site import accept, check_published, clip, current, files_in
from tests.support.videos.video_workers import ffmpegs_below, finished_parts, has_ended, worker_environment
from videos import intervening, storage
from videos.models import Transcode, TranscodeStatus, Video

pytestmark = pytest.mark.django_db(transaction=True)


def remove(source: Path) -> None:
    source.unlink()


def cut_short(source: Path) -> None:
    os.truncate(source, source.stat().st_size // 2)


def encodes(worker: ManageProcess) -> bool:
    """A chunk is being encoded, by an ffmpeg that has its source open."""
    is_running = Job.objects.filter(type="videos.encode", status=Status.PROCESSING).exists()
    return is_running and any(_reads_a_source(pid) for pid in ffmpegs_below(worker.pid))


def _reads_a_source(pid: int) -> bool:
    try:
        return any("/source/" in str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


@pytest.mark.parametrize(("harm", "failure"), [(remove, "SourceGone"), (cut_short, "SourceChanged")])
def test_a_source_lost_while_ffmpeg_reads_it_fails_the_retranscode_and_nothing_else(
    videos_root: Path, start_manage: StartManage, harm: Callable[[Path], None], failure: str
) -> None:
    video = accept(clip(250, (1280, 720)))
    run_due_jobs()
    old = current(video)
    before, files = Video.objects.values().get(), files_in(storage.generation(old))
    source = storage.source(video)
    whole = source.read_bytes()
    again: Transcode = intervening.retranscode(video)
    slow = {**worker_environment(), "VIDEOS_PRESET": "veryslow"}
    worker = start_manage("runworker", "--concurrency", "1", env=slow)
    wait_until(lambda: encodes(worker), interval=0.01)
    harm(source)
    wait_until(lambda: has_ended(again))
    assert again.status == TranscodeStatus.FAILED
    assert error_types(job__workflow=again.workflow_id) == {failure}
    assert str(source) in again.error
    assert Video.objects.values().get() == before
    assert files_in(storage.generation(old)) == files
    check_published(video)

    finished = finished_parts(video, again.number)
    source.write_bytes(whole)
    intervening.retry(video)
    wait_until(lambda: has_ended(again))
    assert current(video) == again
    assert finished.items() <= finished_parts(video, again.number).items(), "what was finished is kept"
    check_published(video)
