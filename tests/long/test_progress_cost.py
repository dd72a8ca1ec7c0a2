"""What progress costs the database: two statements a second and worker at most, however much ffmpeg says."""

import json
import re
from itertools import combinations
from pathlib import Path

import pytest
from django.conf import settings
from django.db.models import Max, Min

from jobs.models import Attempt
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.queue.workers import QUICK
from tests.support.videos.media_clips import sample_clip
from tests.support.videos.video_site import accept, check_published
from videos.job_types import CORES
from videos.models import Video, VideoStatus

pytestmark = pytest.mark.django_db(transaction=True)

ALLOWED = 2
"""Writes a second."""


def read_writes(log: Path) -> list[tuple[int, str]]:
    """The number of its transaction and the text of every statement that the worker has committed."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(line["transaction"], line["sql"]) for line in lines]


def is_progress(sql: str) -> bool:
    """A report of progress and nothing else: completing a job sets its progress too, and its status with it."""
    changed = re.split(r"\b(?:SET|FROM|WHERE)\b", sql)[1] if sql.lstrip().startswith("UPDATE") else ""
    columns = re.findall(r"(\w+)\"? = ", changed)
    return "progress_percent" in columns and "status" not in columns


def seconds_of_encoding() -> float:
    """From the first claim of a chunk to the end of the last one, by the database's clock."""
    attempts = Attempt.objects.filter(job__type__in=["videos.encode", "videos.audio"])
    seen = attempts.aggregate(start=Min("started_at"), end=Max("finished_at"))
    return float((seen["end"] - seen["start"]).total_seconds())


def were_side_by_side() -> bool:
    """Whether two chunks were encoded at the same time, for more than half of it."""
    attempts = Attempt.objects.filter(job__type="videos.encode")
    spans = [(run.started_at, run.finished_at) for run in attempts if run.finished_at]
    return any(
        min(one_end, end) - max(one_start, start) > min(one_end - one_start, end - start) / 2
        for (one_start, one_end), (start, end) in combinations(spans, 2)
    )


def is_ready(video: Video) -> bool:
    video.refresh_from_db()
    assert video.status != VideoStatus.FAILED, video.error_message
    return video.status == VideoStatus.READY


@pytest.mark.parametrize("at_once", [1, 2])
def test_progress_costs_at_most_two_writes_a_second(
    videos_root: Path, start_manage: StartManage, tmp_path: Path, at_once: int
) -> None:
    log = tmp_path / "writes"
    environment = QUICK | {f"VIDEOS_{key}": str(value) for key, value in settings.VIDEOS.items()}
    environment |= {
        "VIDEOS_PRESET": "slow",
        "DJANGO_SETTINGS_MODULE": "tests.jobapp.noted_writes",
        "WRITES_LOG": str(log),
    }
    video = accept(sample_clip("bigbuckbunny.mp4"))
    start_manage("runworker", "--concurrency", str(at_once), env=environment)
    wait_until(lambda: is_ready(video), timeout=250)
    writes = read_writes(log)
    reports = [(number, sql) for number, sql in writes if is_progress(sql)]
    assert len(reports) >= 4, f"{len(reports)} reports: ffmpeg took too short a time to measure anything"
    allowed = ALLOWED * seconds_of_encoding() + 1
    assert len(reports) <= allowed
    assert were_side_by_side() == (min(at_once, CORES) > 1)
    their_transactions = {number for number, _ in reports}
    assert [sql for number, sql in writes if number in their_transactions and not is_progress(sql)] == []
    check_published(video, sync=False)
