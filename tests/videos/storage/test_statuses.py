"""Seed 000's test cases on the rows of videos: a status that is not that of the jobs is repaired, also at start-up.

tests/long/test_statuses_by_hand.py sets every status of every row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from jobs import enqueue, lifecycle, repairs
from jobs.invariants import broken_rules
from jobs.models import Job, Status
from jobs.reconcile import reconcile
from jobs.testing import run_due_jobs
from tests.conftest import RunManage
from tests.support.pages.videos_api_client import VIDEOS, send
from tests.support.queue.actors import Background, claimed_ids, events_of, new_worker
from tests.support.videos.video_site import accept, clip, two_qualities
from tests.support.videos.video_workers import worker_environment
from videos import intervening, statuses, storage
from videos.models import QualityProgress, Subtitle, Transcode, Video

pytestmark = pytest.mark.django_db

ON_DEMAND, AT_START = ("reconcile",), ("runworker", "--until-empty", "--types", "demo.count")


def by_hand(status: str, slug: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE videos_video SET status = %s WHERE slug = %s", [status, slug])


def status_of(slug: str) -> str:
    return str(Video.objects.get(slug=slug).status)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("command", [ON_DEMAND, AT_START], ids=["on demand", "at start-up"])
def test_a_status_by_hand_becomes_what_the_jobs_say(
    videos_root: Path, run_manage: RunManage, command: tuple[str, ...]
) -> None:
    accept(clip(50), slug="ready")
    run_due_jobs()
    accept(clip(50), slug="waiting")
    accept(clip(50), slug="cancelled")
    intervening.cancel(Video.objects.get(slug="cancelled"))
    right = {"ready": "ready", "waiting": "pending", "cancelled": "failed"}
    for wrong in ("processing", "failed", "pending"):
        for slug in right:
            by_hand(wrong, slug)
        assert broken_rules(on_disk=True), "check_invariants names it"
        run_manage(*command, env=worker_environment())
        assert {slug: status_of(slug) for slug in right} == right
        assert broken_rules(on_disk=True) == []
    said = run_manage("reconcile", "--dry-run", env=worker_environment())
    assert len(said.stdout.splitlines()) == 1, "nothing is left to do"


def test_a_dry_run_tells_and_changes_nothing(videos_root: Path) -> None:
    accept(clip(50), slug="film")
    run_due_jobs()
    by_hand("processing", "film")
    (finding,) = reconcile(dry_run=True, thorough=True)
    assert (finding.type, finding.status, finding.becomes) == ("video", "processing", "ready")
    assert status_of("film") == "processing"
    assert [one.becomes for one in reconcile()] == ["ready"]


def test_a_stored_subtitle_completes_its_job_whatever_the_record_says(
    videos_root: Path, settings: Any, admin_client: Client
) -> None:
    """Seed 000, cases 3 and 4: inserted by hand, and with a failure recorded."""
    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "auto", "MIN_FREE_BYTES": 0}
    video = accept(clip(50), slug="film")
    run_due_jobs(limit=1)
    heard = Job.objects.get(type="videos.transcribe")
    lease = lifecycle.claim(new_worker(types=["videos.transcribe"]), 1)[0].lease
    lifecycle.fail(lease, lifecycle.FailureReport("X", "deaf", permanent=True))
    Subtitle.objects.create(
        video=video, language="en", source="uploaded", webvtt="WEBVTT\n\n00:00.000 --> 00:01.000\nHello\n"
    )
    reconcile()
    heard.refresh_from_db()
    assert heard.status == Status.COMPLETED
    assert send(admin_client, "GET", f"{VIDEOS}/{video.pk}").json()["status"] == "pending"
    run_due_jobs()
    assert status_of("film") == "ready"


def test_a_ready_video_is_ready_again_although_a_newer_version_has_failed(videos_root: Path) -> None:
    video = accept(clip(50), slug="film")
    run_due_jobs()
    intervening.retranscode(video)
    intervening.cancel(video)
    Video.objects.update(status="failed", error_message="by hand")
    assert [one.code for one in broken_rules(on_disk=True)] == ["videos.ready"]
    reconcile()
    video.refresh_from_db()
    assert (video.status, video.error_message) == ("ready", "")


@pytest.mark.django_db(transaction=True)
def test_what_a_person_has_to_do_is_said_by_both(videos_root: Path, run_manage: RunManage) -> None:
    video = accept(clip(50), slug="film")
    run_due_jobs()
    source = storage.source(video)
    away = source.rename(source.with_name("away"))
    (violation,) = broken_rules(on_disk=True)
    assert violation.by_hand
    for command in ("reconcile", "check_invariants"):
        done = run_manage(command, check=False, env=worker_environment())
        assert (done.returncode, str(violation) in done.stderr, violation.by_hand in done.stderr) == (
            1,
            True,
            True,
        )
    away.rename(source)
    assert run_manage("reconcile", env=worker_environment()).returncode == 0


def test_counts_that_were_changed_with_a_job_are_counted_again(videos_root: Path) -> None:
    video = accept(two_qualities(100), slug="film")
    run_due_jobs(limit=2)
    Job.objects.filter(type="videos.encode", status=Status.PENDING).update(
        status=Status.COMPLETED, completed_at="2026-01-01T00:00:00Z"
    )
    reconcile(thorough=True)
    assert broken_rules(on_disk=True) == []
    made = QualityProgress.objects.exclude(status="skipped").values_list("segments_completed", flat=True)
    assert {*made} == {2}
    run_due_jobs()
    video.refresh_from_db()
    assert video.status == "ready"


def test_between_two_stages_a_video_is_pending(
    videos_root: Path, settings: Any, admin_client: Client
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}
    video = accept(two_qualities(100), slug="film")

    def shown() -> tuple[str, set[str]]:
        answer = send(admin_client, "GET", f"{VIDEOS}/{video.pk}").json()
        return answer["status"], {one["status"] for one in answer["qualities"]} - {"skipped"}

    seen = [shown()]
    while run_due_jobs(limit=1):
        seen.append(shown())
    assert [status for status, _ in seen] == ["pending"] * (len(seen) - 1) + ["ready"]
    assert {*(qualities for _, some in seen for qualities in some)} == {"pending", "completed"}
    intervening.retranscode(video)
    (claimed,) = lifecycle.claim(new_worker(), 1)
    assert shown()[0] == "ready"
    lifecycle.release([claimed.lease])


def test_the_status_of_videos_has_an_index() -> None:
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "videos_video")
    assert ["status"] in [one["columns"] for one in found.values() if one["index"]]


# -- beside workers ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_is_not_committed_yet_is_waited_for(videos_root: Path) -> None:
    """Lock, then check: what reconcile saw before the claim must not undo it."""
    accept(clip(50), slug="film")
    by_hand("failed", "film")
    with transaction.atomic():
        assert len(claimed_ids(new_worker())) == 1
        beside = Background(lambda: statuses.mend(dry_run=False))
        beside.wait_until_blocked()
    beside.result()
    assert (status_of("film"), Transcode.objects.get().status) == ("processing", "processing")
    assert broken_rules() == []


@pytest.mark.django_db(transaction=True)
def test_a_retry_at_the_same_moment_is_not_repaired_again() -> None:
    job = enqueue("tests.noop")
    Job.objects.filter(pk=job.pk).update(status="failed")
    with transaction.atomic():
        lifecycle.retry(job.id)
        beside = Background(lambda: repairs.mend(dry_run=False))
        if connection.vendor == "postgresql":
            beside.wait_until_blocked()
    assert beside.result() == []
    assert (Job.objects.get(pk=job.pk).status, events_of(job.id)) == (Status.PENDING, ["retried"])
