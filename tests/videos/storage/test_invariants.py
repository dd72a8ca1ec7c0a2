"""Each rule of the pipeline notices what breaks it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.utils import timezone

from jobs.invariants import ON_DISK, RULES, broken_rules
from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.support.queue.constraints import undone
from tests.support.queue.quick_look import broken_at_a_glance
from tests.support.videos.video_site import accept, two_qualities
from videos import storage
from videos.models import QualityProgress, Rendition, Subtitle, Transcode, Video

pytestmark = pytest.mark.django_db

Breaker = Callable[[], object]
NOW = timezone.now()


def quality(**changes: object) -> Breaker:
    return lambda: QualityProgress.objects.filter(quality="360p").update(**changes)


def picture(**changes: object) -> Breaker:
    return lambda: Rendition.objects.filter(name="360p").update(**changes)


def sound(**changes: object) -> Breaker:
    return lambda: Rendition.objects.filter(kind="audio").update(**changes)


def transcode(**changes: object) -> Breaker:
    return lambda: Transcode.objects.update(**changes)


def video(**changes: object) -> Breaker:
    return lambda: Video.objects.update(**changes)


def chunks(**changes: object) -> Breaker:
    return lambda: Job.objects.filter(type="videos.encode").update(**changes)


def run_while_pending() -> None:
    chunks(
        status="processing",
        worker="01HZZZZZZZZZZZZZZZZZZZZZZZ",
        lease_token=1,
        claimed_at=NOW,
        claim_expires_at=NOW,
    )()
    transcode(status="pending")()


def forget_generations() -> None:
    Video.objects.update(status="pending", current=None)
    Transcode.objects.all().delete()


PUBLISHED: list[tuple[str, Breaker]] = [
    ("videos_known_statuses", video(status="lost")),
    ("videos_known_statuses", quality(status="lost", completed_at=None)),
    ("videos_known_names", video(visibility="secret")),
    ("videos_known_names", transcode(current_step="dream")),
    ("videos_ready_is_published", transcode(status="retired")),
    ("videos_current_is_whole", lambda: Rendition.objects.filter(kind="video").delete()),
    ("videos_published_at", video(published_at=None)),
    ("videos_published_at", transcode(published_at=None)),
    ("videos_status_follows", video(status="processing")),
    ("videos_failed_with_reason", video(status="failed", error_message="")),
    ("videos_failed_with_reason", video(error_message="too hard")),
    ("videos_probed", video(fps=None)),
    ("videos_probed", video(video_codec="")),
    ("videos_begun", forget_generations),
    ("videos_begun", transcode(workflow_id="")),
    (
        "videos_subtitles",
        lambda: Subtitle.objects.create(
            video=Video.objects.get(), language="en", source="uploaded", webvtt="1\n00:00:01,000"
        ),
    ),
    (
        "transcodes_one_active",
        lambda: Transcode.objects.bulk_create(
            Transcode(video=Video.objects.get(), number=number, status="pending") for number in (2, 3)
        ),
    ),
    ("transcodes_published_is_finished", chunks(status="pending", completed_at=None)),
    ("transcodes_ended_with_reason", transcode(error="too hard")),
    ("transcodes_ended_with_reason", transcode(ended_at=NOW)),
    ("transcodes_ended_with_reason", transcode(status="failed", ended_at=NOW)),
    ("transcodes_dated", transcode(published_at=None)),
    ("transcodes_dated", transcode(retired_at=NOW)),
    ("transcodes_dated", transcode(status="retired", retired_at=NOW)),
    ("transcodes_removed", transcode(files_removed_at=NOW)),
    ("transcodes_percent", transcode(progress_percent=101)),
    ("transcodes_percent", transcode(status="failed")),
    ("transcodes_eta", transcode(eta=NOW)),
    ("transcodes_pinned", transcode(encoder="another")),
    ("transcodes_pinned", transcode(plan=None)),
    ("transcodes_pinned", lambda: QualityProgress.objects.all().delete()),
    ("transcodes_one_encoder", chunks(type="videos.encode.h264_qsv")),
    ("transcodes_one_encoder", transcode(encoder="h264_qsv")),
    ("qualities_segments", quality(segments_completed=1)),
    ("qualities_segments", quality(status="pending", completed_at=None)),
    ("qualities_share", quality(progress_percent=99)),
    ("qualities_failed_with_reason", quality(error_message="too hard")),
    ("qualities_failed_with_reason", quality(status="failed", completed_at=None)),
    ("qualities_skipped", quality(status="skipped", completed_at=None)),
    ("qualities_skipped", video(height=1080, width=1920)),
    ("qualities_at_rest", quality(status="in_progress", completed_at=None)),
    ("qualities_at_rest", quality(status="pending", completed_at=None)),
    ("renditions_completed", picture(name="361p")),
    ("renditions_completed", quality(status="failed", completed_at=None)),
    ("renditions_sound", lambda: Rendition.objects.filter(kind="audio").delete()),
    ("renditions_described", picture(bytes=0)),
    ("renditions_described", sound(sha256="")),
    ("renditions_described", sound(codecs="")),
    ("renditions_described", picture(playlist="480p/playlist.m3u8")),
    ("renditions_described", picture(average_bandwidth=F("bandwidth") + 1)),
    ("renditions_picture", video(height=470)),
    ("renditions_picture", picture(width=479)),
    ("renditions_picture", picture(frame_rate=61)),
    ("renditions_picture", picture(height=None)),
    ("renditions_aligned", picture(frame_rate=24)),
    ("renditions_aligned", picture(segments=1)),
    ("renditions_aligned", sound(segments=9)),
    ("renditions_aligned", sound(segments=0)),
]
STARTED: list[tuple[str, Breaker]] = [
    (
        "transcodes_active_has_jobs",
        lambda: Job.objects.update(status="completed", completed_at=NOW, blocked=False),
    ),
    ("transcodes_running_is_processing", run_while_pending),
    ("transcodes_running_is_processing", transcode(status="processing")),
    ("transcodes_ended_by_a_job", transcode(status="failed", ended_at=NOW, error="too hard")),
    ("transcodes_active_without_failure", chunks(status="failed")),
    ("qualities_counted", quality(segments_completed=1, progress_percent=25)),
    ("transcodes_every_chunk", chunks(type="tests.noop")),
    (
        "transcodes_every_chunk",
        lambda: Job.objects.filter(payload__chunk=2).update(payload={"chunk": 1}),
    ),
    ("videos_deleted_rests", video(deleted_at=NOW)),
]


def name_of(rule: str) -> str:
    """The name of a rule: its module and its function, without its words."""
    check = (RULES | ON_DISK)[rule]
    return f"{check.__module__.rpartition('.')[2]}{check.__name__}"


def unnoticed(breakers: list[tuple[str, Breaker]]) -> list[str]:
    """The rules that are not among those that were seen to be broken, although somebody has broken them."""
    missed = []
    with undone(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("DROP INDEX videos_one_active_transcode")
        for number, (name, breaker) in enumerate(breakers):
            with undone():
                breaker()
                found = broken_rules()
                if name not in {name_of(violation.rule) for violation in found}:
                    missed.append(f"{number}: {name}")
                assert {str(violation) for violation in found} == set(broken_at_a_glance())
    return missed


def test_what_is_wrong_with_a_published_video_is_noticed(videos_root: Path) -> None:
    accept(two_qualities())
    run_due_jobs()
    assert broken_rules(on_disk=True) == []
    assert unnoticed(PUBLISHED) == []


def test_what_is_wrong_with_an_active_transcode_is_noticed(videos_root: Path) -> None:
    accept(two_qualities())
    run_due_jobs(limit=1)
    assert broken_rules(on_disk=True) == []
    assert unnoticed(STARTED) == []


FILES: list[tuple[str, str, Callable[[Path], None]]] = [
    ("files_sources", "source/clip-100-640x480-1.mp4", Path.unlink),
    ("files_sources", "source/clip-100-640x480-1.mp4", lambda path: os.truncate(path, 7)),
    ("files_published", "g1/master.m3u8", Path.unlink),
    ("files_published", "g1/360p/playlist.m3u8", Path.unlink),
    ("files_published", "g1/480p/seg_00002.m4s", Path.unlink),
    ("files_published", "g1/480p/seg_00002.m4s", lambda path: os.truncate(path, 7)),
]


def test_a_file_that_is_not_there_is_noticed(videos_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = accept(two_qualities())
    run_due_jobs()
    for rule, file, harm in FILES:
        path = storage.video_folder(made.pk) / file
        whole = path.read_bytes()
        harm(path)
        (violation,) = broken_rules(on_disk=True)
        assert name_of(violation.rule) == rule
        with pytest.raises(SystemExit):
            call_command("check_invariants")
        assert str(violation) in capsys.readouterr().err
        path.write_bytes(whole)
    call_command("check_invariants")
    assert capsys.readouterr().err == ""


def test_every_rule_of_the_pipeline_is_shown_to_fail() -> None:
    shown = {name for name, _ in (*PUBLISHED, *STARTED)} | {name for name, _, _ in FILES}
    shown.add("files_ready")  # in test_statuses.py
    own = [text for text, check in (RULES | ON_DISK).items() if check.__module__.startswith("videos.")]
    assert [text for text in own if name_of(text) not in shown] == []
