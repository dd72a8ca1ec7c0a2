"""Each rule of the pipeline notices what breaks it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from jobs.invariants import RULES, broken_rules
from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.constraints import undone
from tests.video_site import accept, clip
from videos.models import QualityProgress, Rendition, Transcode, Video

pytestmark = pytest.mark.django_db


PUBLISHED: dict[str, Callable[[], object]] = {
    "a ready video has a published generation": lambda: Transcode.objects.update(status="retired"),
    "a video's current generation is its own": lambda: Rendition.objects.filter(kind="video").delete(),
    "a video has been published exactly": lambda: Video.objects.update(published_at=None),
    "a video that is not ready follows": lambda: Video.objects.update(status="processing"),
    "a failed video says why": lambda: Video.objects.update(status="failed", error_message=""),
    "a quality is completed exactly": lambda: QualityProgress.objects.filter(status="completed").update(
        segments_completed=1
    ),
    "no progress is below 0": lambda: Transcode.objects.update(progress_percent=101),
    "one active transcode per video": lambda: Transcode.objects.bulk_create(
        Transcode(video=Video.objects.get(), number=number, status="pending") for number in (2, 3)
    ),
}
STARTED: dict[str, Callable[[], object]] = {
    "an active transcode has a job": lambda: Job.objects.update(
        status="completed", completed_at=timezone.now()
    ),
    "a transcode whose job runs is not pending": lambda: Job.objects.update(
        status="processing",
        worker="01HZZZZZZZZZZZZZZZZZZZZZZZ",
        lease_token=1,
        claimed_at=timezone.now(),
        claim_expires_at=timezone.now(),
    ),
    "an active transcode has no failed": lambda: Job.objects.update(status="failed"),
}


def _breaks(start: str, breaker: Callable[[], object]) -> None:
    assert broken_rules() == []
    with undone(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("DROP INDEX videos_one_active_transcode")
        breaker()
        assert any(violation.rule.startswith(start) for violation in broken_rules())


@pytest.mark.parametrize("start", PUBLISHED)
def test_a_broken_published_video_is_noticed(videos_root: Path, start: str) -> None:
    accept(clip(50))
    run_due_jobs()
    _breaks(start, PUBLISHED[start])


@pytest.mark.parametrize("start", STARTED)
def test_a_broken_transcode_is_noticed(videos_root: Path, start: str) -> None:
    accept(clip(50))
    _breaks(start, STARTED[start])


def test_every_rule_of_the_pipeline_is_shown_to_fail() -> None:
    own = [text for text, check in RULES.items() if check.__module__ == "videos.invariants"]
    assert [text for text in own if not any(text.startswith(s) for s in (*PUBLISHED, *STARTED))] == []
