"""Chunks and sound from other machines: what they get, what they may send, what makes it real, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs.models import Job, Status, Worker
from jobs.testing import run_due_jobs
from tests.support.queue.actors import status_of, stored
from tests.support.remote.remote_client import RemoteClient, good, new_remote, refused
from tests.support.remote.remote_films import CHUNK, SOUND, claim, make, run_remotely, send_all
from tests.support.remote.remote_films import encoder as encoder  # fixtures
from tests.support.remote.remote_films import transcode as transcode
from tests.support.videos.codes import error_types
from tests.support.videos.video_site import check_published, files_in
from videos import intervening, storage, toolchains
from videos.models import QualityStatus, Transcode

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def source(transcode: Transcode) -> Path:
    return storage.source(transcode.video)


def test_a_video_whose_chunks_and_sound_come_from_elsewhere_is_published(
    encoder: RemoteClient, transcode: Transcode, source: Path, tmp_path: Path
) -> None:
    for number, kind in enumerate([CHUNK, SOUND, CHUNK]):
        job = claim(encoder, kind)
        answer = encoder.get(job, "source")
        assert b"".join(answer.streaming_content) == source.read_bytes()
        run_remotely(encoder, job, source, tmp_path / str(number))
    assert list((storage.workplace() / "remote").iterdir()) == []
    run_due_jobs()
    check_published(transcode.video)


def test_an_order_has_all_that_encoding_asks_of_the_site(
    encoder: RemoteClient, transcode: Transcode, source: Path, settings: Settings
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "CRITICAL_QUALITIES": "480p"}
    transcode.qualities.filter(quality="360p").update(status=QualityStatus.FAILED, error_message="no")
    given = good(encoder.get(claim(encoder), "order"))
    assert given["order"] == {
        "plan": transcode.plan,
        "number": 1,
        "qualities": ["480p"],
        "critical": ["480p"],
        "manifest": None,
    }
    video = transcode.video
    assert given["source"] == {
        "name": source.name,
        "bytes": video.source_bytes,
        "sha256": video.source_sha256,
    }


def test_a_chunk_that_is_there_in_part_or_whole_is_not_asked_for_again(
    encoder: RemoteClient, transcode: Transcode, source: Path, tmp_path: Path
) -> None:
    job = claim(encoder)
    order = good(encoder.get(job, "order"))["order"]
    files = make({**order, "plan": {**order["plan"]}}, job, source, tmp_path)
    address = "manifests/chunk_00001.json"
    manifest = json.loads(files.pop(address))
    half = {
        **manifest,
        "parts": ["360p"],
        "files": [file for file in manifest["files"] if file["name"].startswith("360p/")],
    }
    send_all(encoder, job, files)
    good(encoder.put(job, address, json.dumps(half).encode()))
    refused(encoder.report("complete", job), 409, "unfinished")
    assert good(encoder.get(job, "order"))["order"]["manifest"] == half
    other = {
        **manifest,
        "parts": ["480p"],
        "files": [file for file in manifest["files"] if file["name"].startswith("480p/")],
    }
    good(encoder.put(job, address, json.dumps(other).encode()))
    assert good(encoder.get(job, "order"))["done"] is True
    good(encoder.report("complete", job))


def test_a_failed_generation_is_taken_over_when_it_is_retried(
    encoder: RemoteClient, transcode: Transcode, source: Path, tmp_path: Path
) -> None:
    run_remotely(encoder, claim(encoder), source, tmp_path / "1")
    good(encoder.report("fail", claim(encoder), permanent=True))
    transcode.video.refresh_from_db()
    intervening.retry(transcode.video)
    run_due_jobs()
    check_published(transcode.video)


# -- who can run it ----------------------------------------------------------------------------------------------------


def test_a_worker_with_another_ffmpeg_gets_the_job_put_off_for_those_who_have_it(
    encoder: RemoteClient, transcode: Transcode
) -> None:
    other = new_remote("other", types=[CHUNK], capabilities=["ffmpeg:0.0-none"])
    job = claim(other)
    refused(other.get(job, "order"), 409, "lease_lost")
    row = stored(job["job_id"])
    assert (row.status, row.attempt_number) == (Status.WAITING, 0)
    assert error_types(job=row.pk) == {"NotThisWorker"}
    assert toolchains.here().build in row.last_error


def test_when_nobody_has_the_right_ffmpeg_the_generation_is_started_over(
    encoder: RemoteClient, transcode: Transcode
) -> None:
    Worker.objects.filter(pk=encoder.worker.pk).update(disabled=True)
    other = new_remote("other", types=[CHUNK], capabilities=["ffmpeg:0.0-none"])
    job = claim(other)
    refused(other.get(job, "order"), 409, "lease_lost")
    assert status_of(job["job_id"]) == Status.CANCELLED
    assert list(transcode.video.transcodes.values_list("number", flat=True)) == [1, 2]


@pytest.mark.parametrize("damage", ["SourceGone", "SourceChanged"])
def test_a_source_that_is_gone_or_changed_fails_the_job_clearly(
    encoder: RemoteClient, source: Path, damage: str
) -> None:
    job = claim(encoder)
    if damage == "SourceGone":
        source.unlink()
    else:
        source.write_bytes(b"another")
    refused(encoder.get(job, "order"), 409, "lease_lost")
    row = stored(job["job_id"])
    assert row.status == Status.FAILED
    assert error_types(job=row.pk) == {damage}


# -- qualities that cannot be encoded ----------------------------------------------------------------------------------


def test_a_quality_that_is_not_critical_may_fail(
    encoder: RemoteClient, transcode: Transcode, source: Path, tmp_path: Path, settings: Settings
) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "CRITICAL_QUALITIES": "360p"}
    job = claim(encoder)
    order = good(encoder.get(job, "order"))["order"]
    files = make(order, job, source, tmp_path)
    manifest = json.loads(files.popitem()[1])
    manifest["files"] = [file for file in manifest["files"] if file["name"].startswith("360p/")]
    manifest["parts"] = ["360p"]
    send_all(encoder, job, {name: content for name, content in files.items() if name.startswith("360p/")})
    good(encoder.put(job, "manifests/chunk_00001.json", json.dumps(manifest).encode()))
    rows = list(Job.objects.order_by("pk").values())
    for result in (
        {},
        {"failed_qualities": {"360p": "no"}},
        {"failed_qualities": {"480p": "no", "360p": "no"}},
        {"failed_qualities": {"../..": "no"}},
        {"failed_qualities": ["480p"]},
        {"failed_qualities": {"480p": "", "360p": None}},
    ):
        refused(encoder.report("complete", job, result=result), 409, "unfinished")
    nul = {"failed_qualities": {"480p": "no\0"}}
    refused(encoder.report("complete", job, result=nul), 422, "invalid")
    assert list(Job.objects.order_by("pk").values()) == rows
    assert not transcode.qualities.filter(status=QualityStatus.FAILED).exists()
    good(encoder.report("complete", job, result={"failed_qualities": {"480p": "the encoder says no"}}))
    given_up = transcode.qualities.get(quality="480p")
    assert (given_up.status, given_up.error_message) == (QualityStatus.FAILED, "the encoder says no")
    run_due_jobs()
    check_published(transcode.video, without=("480p",))


def test_no_file_of_a_published_generation_can_be_changed(
    encoder: RemoteClient, transcode: Transcode, source: Path, tmp_path: Path
) -> None:
    first = claim(encoder)
    files = make(good(encoder.get(first, "order"))["order"], first, source, tmp_path)
    send_all(encoder, first, files)
    good(encoder.report("complete", first))
    run_due_jobs()
    check_published(transcode.video)
    before = files_in(storage.generation(transcode))
    for name, content in files.items():
        refused(encoder.put(first, name, content), 409, "lease_lost")
    assert files_in(storage.generation(transcode)) == before


@pytest.mark.parametrize(("error", "starts_over"), [("FfmpegFailed", True), ("ConnectionError", False)])
def test_a_chunk_that_fails_for_good_on_a_gpu_is_started_over_without_one(
    encoder: RemoteClient, transcode: Transcode, error: str, starts_over: bool
) -> None:
    gpu, special = "h264_nvenc", f"{CHUNK}.h264_nvenc"
    plan = {**(transcode.plan or {}), "encoder": gpu}
    Transcode.objects.filter(pk=transcode.pk).update(plan=plan, encoder=gpu)
    Job.objects.filter(type=CHUNK).update(type=special, max_attempts=1)
    far = new_remote("card", types=[special], capabilities=[gpu])
    answer = far.report("fail", claim(far, special), type=error)
    numbers = dict(transcode.video.transcodes.values_list("number", "encoder"))
    if starts_over:
        refused(answer, 409, "lease_lost")
        assert numbers == {1: gpu, 2: "libx264"}
    else:
        assert good(answer)["status"] == "failed"
        assert numbers == {1: gpu}
