"""What a storage keeps: uploads, repairs, reuse, remote workers and pages with a bucket or any other Django storage."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from jobs.reconcile import reconcile
from jobs.testing import run_due_jobs
from tests.support.remote.remote_client import RemoteClient, good, refused
from tests.support.remote.remote_films import CHUNK, SOUND, claim, make, run_remotely, send_all
from tests.support.remote.remote_films import encoder as encoder  # fixtures
from tests.support.remote.remote_films import transcode as transcode
from tests.support.servers.s3_server import BUCKET
from tests.support.videos.codes import coded
from tests.support.videos.s3_films import PREFIX, Bucket, address, check_watched
from tests.support.videos.s3_films import bucket as bucket
from tests.support.videos.s3_films import bucket_server as bucket_server
from tests.support.videos.video_site import accept, check_published, client_of, clip, current, two_qualities
from videos import depot, intake, intervening, reconciling, storage
from videos.api import health
from videos.exceptions import ActionRefused, NotNow, UploadRefused
from videos.media import encode
from videos.models import Transcode, Video, VideoStatus

pytestmark = pytest.mark.django_db(transaction=True)


# -- uploads -----------------------------------------------------------------------------------------------------------


def test_a_refused_file_leaves_nothing_in_the_bucket(bucket: Bucket, tmp_path: Path) -> None:
    letter = tmp_path / "letter.mp4"
    letter.write_text("Dear Mary,")
    with pytest.raises(UploadRefused):
        accept(letter)
    assert bucket.names() == {}


def test_the_same_film_twice_is_kept_once(bucket: Bucket) -> None:
    first = accept(clip(), slug="film")
    upload = clip()
    with intake.received([upload.read_bytes()], name="again.mp4") as received:
        wanted = intake.what_is_wanted("again.mp4", first.channel, slug="film")
        assert intake.admit(received, wanted).pk == first.pk
    assert [*bucket.names()] == [f"{PREFIX}/{first.pk}/source/{storage.safe_name(first.source_name)}"]


def test_an_upload_while_the_storage_is_away_may_be_tried_again(bucket: Bucket) -> None:
    bucket.wire.cut()
    with pytest.raises(NotNow, check=coded("storage_away")):
        accept(clip())
    assert not Video.objects.exists()
    bucket.wire.mend()
    accept(clip())
    assert len(bucket.names()) == 1


def test_a_wrong_key_is_a_fault_of_the_site_and_said_in_its_log(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", bucket.other_key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", bucket.other_key["SecretAccessKey"])
    settings.STORAGES = {**settings.STORAGES}  # opened anew
    with pytest.raises(NotNow):
        accept(clip())
    assert "AccessDenied" in caplog.text
    assert bucket.names() == {}


# -- repairs -----------------------------------------------------------------------------------------------------------


def test_what_is_lost_from_the_bucket_is_encoded_again(bucket: Bucket, tmp_path: Path) -> None:
    video = accept(two_qualities())
    run_due_jobs()
    assert reconcile() == []
    bucket.remove(video, "g1/360p/seg_00001.m4s")
    assert [finding.becomes for finding in reconcile()] == [VideoStatus.PENDING]
    run_due_jobs()
    assert current(video).number == 2
    check_watched(Client(), video, tmp_path)


def test_a_chunk_that_is_lost_before_publishing_is_encoded_again(bucket: Bucket, tmp_path: Path) -> None:
    video = accept(two_qualities())
    while "g1/manifests/chunk_00001.json" not in bucket.of(video):
        run_due_jobs(limit=1)
    storage.remove(storage.videos_folder())
    bucket.remove(video, "g1/480p/seg_00001.m4s")
    (finding,) = reconcile()
    assert (finding.type, finding.becomes) == ("videos.encode", "pending")
    run_due_jobs()
    check_watched(Client(), video, tmp_path)


def test_a_storage_that_is_away_is_not_taken_for_an_empty_one(bucket: Bucket) -> None:
    video = accept(clip())
    run_due_jobs()
    bucket.wire.cut()
    assert reconcile() == []
    with pytest.raises(ActionRefused, check=coded("storage_away")):
        intervening.retranscode(video)
    video.refresh_from_db()
    assert (video.status, video.transcodes.count()) == (VideoStatus.READY, 1)


def test_what_was_made_while_the_storage_was_away_is_not_made_again(bucket: Bucket) -> None:
    video = accept(clip())
    run_due_jobs(limit=1)
    found: Transcode = video.transcodes.get()
    real, calls = depot.Depot.put, []

    def away(*arguments: Any) -> None:
        calls.append(arguments)
        raise depot.StorageDown(ConnectionError("away"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depot.Depot, "put", away)
        run_due_jobs()
    assert calls
    made = storage.generation(found) / "manifests" / "chunk_00001.json"
    before = made.parent.parent.joinpath("360p/seg_00001.m4s").stat().st_mtime_ns
    assert depot.Depot.put is real
    while "g1/manifests/chunk_00001.json" not in bucket.of(video):
        assert run_due_jobs(limit=1, ahead=timedelta(minutes=1))
    assert made.parent.parent.joinpath("360p/seg_00001.m4s").stat().st_mtime_ns == before


def test_folders_that_belong_to_nobody_are_found_and_removed(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = accept(clip())
    lost = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    for name in (f"{lost}/source/a.mp4", f"{video.pk}/g7/master.m3u8"):
        bucket.client.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{name}", Body=b"x")
    told = io.StringIO()
    call_command("videos", "orphans", stdout=told)
    assert "g7" in told.getvalue()
    assert lost not in told.getvalue(), "it may be an upload that is not committed yet"
    monkeypatch.setattr(reconciling, "SETTLED", timedelta(seconds=-1))
    call_command("videos", "orphans", "--remove", stdout=told)
    assert [*bucket.of(video)] == [f"source/{storage.safe_name(video.source_name)}"]
    assert len(bucket.names()) == 1


# -- reuse, remote workers ---------------------------------------------------------------------------------------------


def test_a_retry_takes_over_what_the_bucket_has(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = accept(two_qualities())
    run_due_jobs()
    storage.remove(storage.videos_folder())  # as on another machine

    def again(*arguments: Any, **named: Any) -> None:
        raise AssertionError("it is encoded again")

    monkeypatch.setattr(encode, "encode_chunk", again)
    monkeypatch.setattr(encode, "encode_audio", again)
    intervening.retranscode(video, repairing=current(video))
    run_due_jobs()
    assert current(video).number == 2
    check_watched(Client(), video, tmp_path)


def test_remote_workers_go_through_the_site(
    bucket: Bucket, encoder: RemoteClient, transcode: Transcode, tmp_path: Path
) -> None:
    source = two_qualities()
    for number, kind in enumerate([CHUNK, SOUND, CHUNK]):
        job = claim(encoder, kind)
        answer = encoder.get(job, "source")
        assert b"".join(answer.streaming_content) == source.read_bytes()
        run_remotely(encoder, job, source, tmp_path / str(number))
    assert "g1/manifests/chunk_00002.json" in bucket.of(transcode.video)
    run_due_jobs()
    check_watched(Client(), transcode.video, tmp_path / "watched")


def test_a_remote_worker_is_put_off_while_the_storage_is_away(
    bucket: Bucket, encoder: RemoteClient, transcode: Transcode, tmp_path: Path
) -> None:
    job = claim(encoder)
    order = good(encoder.get(job, "order"))["order"]
    files = make(order, job, two_qualities(), tmp_path)
    address = "manifests/chunk_00001.json"
    manifest = files.pop(address)
    send_all(encoder, job, files)
    bucket.wire.cut()
    refused(encoder.put(job, address, manifest), 503, "later")
    bucket.wire.mend()
    refused(encoder.report("complete", job), 409, "unfinished")
    good(encoder.put(job, address, manifest))
    good(encoder.report("complete", job))
    assert {"g1/360p/seg_00001.m4s", f"g1/{address}"} <= {*bucket.of(transcode.video)}


# -- pages and settings ------------------------------------------------------------------------------------------------


def test_pages_allow_the_bucket_and_show_its_pictures(bucket: Bucket) -> None:
    video = accept(clip())
    run_due_jobs()
    page = Client().get(f"/v/{video.slug}/")
    origin = f"http://127.0.0.1:{bucket.wire.port}"
    for rule in ("img-src", "media-src", "connect-src"):
        assert f"{rule} 'self' {origin}" in page["Content-Security-Policy"]
    assert "poster.jpg" in page.content.decode()
    answer = Client().get(address(video, "poster.jpg"))
    assert answer["Cache-Control"] == "private, max-age=150"
    assert Client().get(address(video, "nothing.m3u8")).status_code == 404
    bucket.wire.cut()
    away = Client().get(address(video, "master.m3u8"))
    assert (away.status_code, away["Retry-After"]) == (503, "10")
    assert Client().get(f"/v/{video.slug}/").status_code == 200


def test_whoever_asks_for_the_head_of_a_file_gets_it(bucket: Bucket) -> None:
    video = accept(clip())
    run_due_jobs()
    answer = Client().head(address(video, "360p/init.mp4"))
    assert answer.status_code == 302
    found = requests.head(answer["Location"], timeout=30)
    assert (found.status_code, found.headers["Content-Type"]) == (200, "video/mp4")
    assert found.headers["Cache-Control"] == "private, max-age=31536000, immutable"


def test_a_site_without_its_storage_is_not_well(bucket: Bucket) -> None:
    health._answers.cache_clear()
    assert Client().get("/api/health").status_code == 200
    bucket.wire.cut()
    health._answers.cache_clear()
    answer = Client().get("/api/health")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == [health.STORAGE_AWAY]


def test_any_storage_of_django_will_do_and_files_go_out_through_the_site(
    videos_root: Path, settings: Settings, tmp_path: Path
) -> None:
    settings.STORAGES = {
        **settings.STORAGES,
        "shelf": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "shelf"), "allow_overwrite": True},
        },
    }
    settings.VIDEOS = {**settings.VIDEOS, "STORAGE": "shelf"}
    video = accept(two_qualities(), visibility="private")
    run_due_jobs()
    kept = tmp_path / "shelf" / video.pk / "g1"
    assert (kept / "master.m3u8").is_file()
    viewer = client_of("view_video")
    name = "360p/seg_00001.m4s"
    part: Any = viewer.get(address(video, name), headers={"Range": "bytes=10-19"})
    assert (part.status_code, b"".join(part.streaming_content)) == (206, (kept / name).read_bytes()[10:20])
    assert Client().get(address(video, name)).status_code == 404
    assert reconcile() == []
    (kept / name).unlink()
    assert reconcile()
    intervening.delete(video)
    intervening.purge(video)
    run_due_jobs(ahead=timedelta(minutes=5))
    assert not [path for path in (tmp_path / "shelf").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("querystring_auth", False, "would not be signed"),
        ("custom_domain", "cdn.example.org", "would not be signed"),
        ("default_acl", "public-read", "public"),
        ("object_parameters", {"ACL": "public-read"}, "public"),
        ("file_overwrite", False, "file_overwrite"),
        ("bucket_name", "", "bucket_name"),
    ],
)
def test_a_bucket_that_would_show_private_videos_is_refused_at_start_up(
    bucket: Bucket, settings: Settings, option: str, value: object, told: str
) -> None:
    s3 = settings.STORAGES["s3"]
    assert not [message for message in run_checks() if message.id == "videos.E004"]
    settings.STORAGES = {**settings.STORAGES, "s3": {**s3, "OPTIONS": {**s3["OPTIONS"], option: value}}}
    (problem,) = [message for message in run_checks() if message.id == "videos.E004"]
    assert told in problem.msg


def test_a_storage_that_does_not_exist_is_refused_at_start_up(settings: Settings) -> None:
    settings.VIDEOS = {"STORAGE": "tape"}
    assert any("'tape'" in message.msg for message in run_checks() if message.id == "videos.E001")


def test_the_disk_keeps_the_videos_unless_a_storage_is_named(videos_root: Path) -> None:
    assert depot.current() is None
    video = accept(clip())
    run_due_jobs()
    check_published(video)
    assert (videos_root / video.pk / "g1" / "master.m3u8").is_file()
    assert not (videos_root / "cache").exists()


def test_qualities_that_were_not_chosen_are_copied_in_the_bucket(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = accept(two_qualities())
    run_due_jobs()
    storage.remove(storage.videos_folder())  # as on another machine
    real, made = encode.encode_chunk, []

    def noted(plan: Any, number: int, **arguments: Any) -> Any:
        made.append(tuple(r.name for r in plan.renditions))
        return real(plan, number, **arguments)

    monkeypatch.setattr(encode, "encode_chunk", noted)
    intervening.retranscode(video, qualities=["360p"])
    run_due_jobs()
    assert (current(video).number, {*made}) == (2, {("360p",)})
    assert [r.name for r in current(video).renditions.filter(kind="video")] == ["480p", "360p"]
    check_watched(Client(), video, tmp_path)
