"""From an upload to a published, conformant generation."""

from pathlib import Path

import pytest

from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.support.videos.video_site import accept, check_published, current, files_in, two_qualities
from videos import storage
from videos.models import QualityStatus, TranscodeStatus, VideoStatus

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _shelf() -> None:
    """Overrides the fixture that takes chunks from the shelf: here ffmpeg runs."""


def test_an_upload_becomes_ready_and_conformant(videos_root: Path) -> None:
    """001 · Integration Tests · “End-to-End: Upload → Transcode → Ready”"""
    video = accept(two_qualities())
    assert video.status == VideoStatus.PENDING
    run_due_jobs()
    video.refresh_from_db()
    assert video.status == VideoStatus.READY
    assert video.published_at is not None
    transcode = current(video)
    assert (transcode.status, transcode.progress_percent) == (TranscodeStatus.PUBLISHED, 100)
    assert [r.name for r in transcode.renditions.filter(kind="video")] == ["480p", "360p"]
    rows = {row.quality: (row.status, row.segments_completed) for row in transcode.qualities.all()}
    assert rows["480p"] == rows["360p"] == (QualityStatus.COMPLETED, 4)
    assert rows["1080p"] == (QualityStatus.SKIPPED, 0)
    assert Job.objects.filter(type="videos.encode").count() == 2
    check_published(video)
    assert {"poster.jpg", "storyboard.vtt", "storyboard_001.jpg"} <= set(
        files_in(storage.generation(transcode))
    )
