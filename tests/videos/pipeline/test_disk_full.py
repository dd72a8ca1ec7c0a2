"""A disk that is really full: a small file system of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs.models import Status
from jobs.testing import run_due_jobs
from tests.support.servers.small_disk import resize as resize  # a fixture
from tests.support.videos.codes import coded, error_types
from tests.support.videos.video_site import accept, check_published, clip
from videos import intervening
from videos.exceptions import UploadRefused
from videos.models import Video, VideoStatus

pytestmark = pytest.mark.django_db


def test_an_upload_for_which_there_is_no_room_is_refused(
    resize: Callable[[str], None], videos_root: Path
) -> None:
    with pytest.raises(UploadRefused, check=coded("no_room")):
        accept(clip())
    assert not Video.objects.exists()
    assert [path for path in videos_root.rglob("*") if path.is_file()] == []


def test_a_disk_that_fills_up_fails_the_transcode_clearly_and_room_lets_it_go_on(
    resize: Callable[[str], None], settings: Settings
) -> None:
    settings.JOBS = {**settings.JOBS, "MAX_ATTEMPTS": 1}
    source = clip(100)
    resize(f"{source.stat().st_size // 1024 + 60}k")
    video = accept(source)
    run_due_jobs(raise_errors=False)
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    assert video.error_message
    assert error_types(job__status=Status.FAILED) == {"DiskFull"}
    resize("64m")
    intervening.retry(video)
    run_due_jobs()
    check_published(video)
