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
    ("whatever has a status", video(visibility="secret")),
    ("whatever has a status", transcode(current_step="dream")),
    ("a ready video has a published generation", transcode(status="retired")),
    ("a video's current generation is its own", lambda: Rendition.objects.filter(kind="video").delete()),
    ("a video has been published exactly", video(published_at=None)),
    ("a video has been published exactly", transcode(published_at=None)),
    ("a video that is not ready follows", video(status="processing")),
    ("a video says why it failed", video(status="failed", error_message="")),
    ("a video says why it failed", video(error_message="too hard")),
    ("a video was looked at", video(fps=None)),
    ("a video was looked at", video(video_codec="")),
    ("a video has a generation", forget_generations),
    ("a video has a generation", transcode(workflow_id="")),
    (
        "a subtitle is WebVTT",
        lambda: Subtitle.objects.create(
            video=Video.objects.get(), language="en", source="uploaded", webvtt="1\n00:00:01,000"
        ),
    ),
    (
        "one active transcode per video",
        lambda: Transcode.objects.bulk_create(
            Transcode(video=Video.objects.get(), number=number, status="pending") for number in (2, 3)
        ),
    ),
    ("nothing is published that a critical job", chunks(status="pending", completed_at=None)),
    ("a transcode has an end and says why", transcode(error="too hard")),
    ("a transcode has an end and says why", transcode(ended_at=NOW)),
    ("a transcode has an end and says why", transcode(status="failed", ended_at=NOW)),
    ("a transcode is dated", transcode(published_at=None)),
    ("a transcode is dated", transcode(retired_at=NOW)),
    ("a transcode is dated", transcode(status="retired", retired_at=NOW)),
    ("the files of a generation are removed only", transcode(files_removed_at=NOW)),
    ("no progress is below 0", transcode(progress_percent=101)),
    ("no progress is below 0", transcode(status="failed")),
    ("only an active transcode has an end in sight", transcode(eta=NOW)),
    ("plan and encoder are pinned", transcode(encoder="another")),
    ("plan and encoder are pinned", transcode(plan=None)),
    ("plan and encoder are pinned", lambda: QualityProgress.objects.all().delete()),
    ("every chunk of a generation", chunks(type="videos.encode.h264_qsv")),
    ("every chunk of a generation", transcode(encoder="h264_qsv")),
    ("a quality is completed exactly", quality(segments_completed=1)),
    ("a quality is completed exactly", quality(status="pending", completed_at=None)),
    ("the progress of a quality", quality(progress_percent=99)),
    ("a quality says why it failed", quality(error_message="too hard")),
    ("a quality says why it failed", quality(status="failed", completed_at=None)),
    ("a quality is skipped exactly", quality(status="skipped", completed_at=None)),
    ("a quality is skipped exactly", video(height=1080, width=1920)),
    ("only an active transcode has a quality", quality(status="in_progress", completed_at=None)),
    ("only an active transcode has a quality", quality(status="pending", completed_at=None)),
    ("a rendition of the picture is a completed quality", picture(name="361p")),
    ("a rendition of the picture is a completed quality", quality(status="failed", completed_at=None)),
    ("what was published has sound", lambda: Rendition.objects.filter(kind="audio").delete()),
    ("a rendition has media", picture(bytes=0)),
    ("a rendition has media", sound(sha256="")),
    ("a rendition has media", sound(codecs="")),
    ("a rendition has media", picture(playlist="480p/playlist.m3u8")),
    ("a rendition has media", picture(average_bandwidth=F("bandwidth") + 1)),
    ("no picture is larger", video(height=470)),
    ("no picture is larger", picture(width=479)),
    ("no picture is larger", picture(frame_rate=61)),
    ("no picture is larger", picture(height=None)),
    ("all renditions of a generation", picture(frame_rate=24)),
    ("all renditions of a generation", picture(segments=1)),
    ("all renditions of a generation", sound(segments=9)),
    ("all renditions of a generation", sound(segments=0)),
]
STARTED: list[tuple[str, Breaker]] = [
    (
        "an active transcode has a job that",
        lambda: Job.objects.update(status="completed", completed_at=NOW, blocked=False),
    ),
    ("a transcode whose job runs is not pending", run_while_pending),
    ("an active transcode has no failed", chunks(status="failed")),
    ("an active transcode has a job for each chunk", chunks(type="tests.noop")),
    (
        "an active transcode has a job for each chunk",
        lambda: Job.objects.filter(payload__chunk=2).update(payload={"chunk": 1}),
    ),
    ("nothing of a deleted video", video(deleted_at=NOW)),
]


def unnoticed(breakers: list[tuple[str, Breaker]]) -> list[str]:
    """The rules that are not among those that were seen to be broken, although somebody has broken them."""
    missed = []
    for number, (start, breaker) in enumerate(breakers):
        with undone(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("DROP INDEX videos_one_active_transcode")
            breaker()
            found = broken_rules()
            if not any(violation.rule.startswith(start) for violation in found):
                missed.append(f"{number}: {start}")
            assert {str(violation) for violation in found} == set(broken_at_a_glance())
    assert broken_rules() == []
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
    ("the source of every video", "source/clip-100-640x480-1.mp4", Path.unlink),
    ("the source of every video", "source/clip-100-640x480-1.mp4", lambda path: os.truncate(path, 7)),
    ("a ready video has all files", "g1/master.m3u8", Path.unlink),
    ("a ready video has all files", "g1/360p/playlist.m3u8", Path.unlink),
    ("a ready video has all files", "g1/480p/seg_00002.m4s", Path.unlink),
    ("a ready video has all files", "g1/480p/seg_00002.m4s", lambda path: os.truncate(path, 7)),
]


def test_a_file_that_is_not_there_is_noticed(videos_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = accept(two_qualities())
    run_due_jobs()
    for start, name, harm in FILES:
        path = storage.video_folder(made.pk) / name
        whole = path.read_bytes()
        harm(path)
        (violation,) = broken_rules(on_disk=True)
        assert violation.rule.startswith(start)
        with pytest.raises(SystemExit):
            call_command("check_invariants")
        assert str(violation) in capsys.readouterr().err
        path.write_bytes(whole)
    call_command("check_invariants")
    assert capsys.readouterr().out == "Every rule holds.\n"


def test_every_rule_of_the_pipeline_is_shown_to_fail() -> None:
    shown = [start for start, _ in (*PUBLISHED, *STARTED)] + [start for start, _, _ in FILES]
    own = [text for text, check in (RULES | ON_DISK).items() if check.__module__.startswith("videos.")]
    assert [text for text in own if not any(text.startswith(start) for start in shown)] == []
