"""Videos in a bucket, by workers on machines that share no disk; a real S3 API that checks signatures and rights."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from jobs.models import Attempt
from tests.conftest import RunManage, StartManage
from tests.support.processes import wait_until
from tests.support.remote.far_workers import Far, Server
from tests.support.servers.s3_server import BUCKET, fetch
from tests.support.videos.s3_films import PREFIX, Bucket, address, check_watched, lifetime
from tests.support.videos.s3_films import bucket as bucket  # fixtures
from tests.support.videos.s3_films import bucket_server as bucket_server
from tests.support.videos.video_site import accept, current, two_qualities
from tests.support.videos.video_workers import has_ended, worker_environment
from videos import intervening, storage
from videos.models import Video, Visibility

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.fixture
def machine(bucket: Bucket, tmp_path: Path) -> dict[str, dict[str, str]]:
    """The environments of two machines, each with a disk of its own."""
    return {
        name: worker_environment() | bucket.environment | {"VIDEOS_ROOT": str(tmp_path / name)}
        for name in ("one", "two")
    }


@pytest.fixture
def owner(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_user("mary"))
    return client


def private_film() -> Video:
    return accept(two_qualities(250), owner="mary", visibility=Visibility.PRIVATE)


def test_two_machines_without_a_shared_disk_publish_a_private_video(
    bucket: Bucket,
    machine: dict[str, dict[str, str]],
    start_manage: StartManage,
    owner: Client,
    tmp_path: Path,
    run_manage: RunManage,
) -> None:
    video = private_film()
    assert not storage.videos_folder().exists(), "the site keeps no copy"
    for environment in machine.values():
        start_manage("runworker", "--concurrency", "1", env=environment)
    wait_until(lambda: has_ended(video), timeout=300)
    signed = check_watched(owner, video, tmp_path / "watched")
    who = Attempt.objects.filter(job__type="videos.encode").values_list("worker_name", flat=True)
    assert len(set(who)) == 2, "nobody did it all alone"

    files = bucket.of(video)
    assert files[f"source/{video.source_name}"] == video.source_bytes
    assert {"g1/master.m3u8", "g1/360p/seg_00001.m4s", "g1/manifests/chunk_00001.json"} <= {*files}
    for name in files:  # nothing in the bucket is anybody's
        assert fetch(bucket.plain_url(f"{PREFIX}/{video.pk}/{name}")).status_code == 403
        if name.startswith("g1/") and "manifests" not in name:
            assert Client().get(f"/v/{video.slug}/{name}").status_code == 404
    grants = bucket.client.get_object_acl(Bucket=BUCKET, Key=f"{PREFIX}/{video.pk}/g1/master.m3u8")["Grants"]
    assert [grant["Grantee"]["Type"] for grant in grants] == ["CanonicalUser"]

    assert {lifetime(url) for url in signed} == {300}
    assert fetch(f"{signed[0][:-4]}0000").status_code == 403
    other = f"{PREFIX}/{video.pk}/source/{video.source_name}"
    assert fetch(signed[0].replace(signed[0].partition("?")[0], bucket.plain_url(other))).status_code == 403

    run_manage("check_invariants", env=machine["one"])
    bucket.remove(video, "g1/360p/seg_00002.m4s")
    broken = run_manage("check_invariants", env=machine["one"], check=False)
    assert broken.returncode
    assert "360p" in broken.stdout + broken.stderr


def test_a_signed_address_ends(
    bucket: Bucket,
    machine: dict[str, dict[str, str]],
    start_manage: StartManage,
    owner: Client,
    settings: Settings,
) -> None:
    video = private_film()
    start_manage("runworker", env=machine["one"])
    wait_until(lambda: has_ended(video), timeout=300)
    settings.VIDEOS = {**settings.VIDEOS, "SIGNED_URL_EXPIRY": "1s"}
    url = owner.get(address(video, "360p/init.mp4"))["Location"]
    wait_until(lambda: fetch(url).status_code == 403, timeout=30)
    Video.objects.filter(pk=video.pk).update(owner="somebody else")
    assert owner.get(address(video, "360p/init.mp4")).status_code == 404


def test_a_storage_that_is_away_costs_time_and_nothing_else(
    bucket: Bucket,
    machine: dict[str, dict[str, str]],
    start_manage: StartManage,
    owner: Client,
    tmp_path: Path,
) -> None:
    video = private_film()
    worker = start_manage("runworker", "--concurrency", "2", env=machine["one"])
    wait_until(lambda: any("chunk_" in name for name in bucket.of(video)) or has_ended(video), interval=0.01)
    bucket.wire.cut()
    put_off = Attempt.objects.filter(error_type="StorageDown")
    wait_until(lambda: put_off.count() >= 2 or has_ended(video))
    video.refresh_from_db()
    assert video.current is None, "what is not all there is not shown"
    bucket.wire.mend()
    bucket.be_busy(20)
    wait_until(lambda: has_ended(video), timeout=300)
    check_watched(owner, video, tmp_path / "watched")
    assert worker.poll() is None
    failed = Attempt.objects.filter(job__type="videos.encode").exclude(error_type__in=["", "StorageDown"])
    assert not failed.exists()


def test_a_new_generation_replaces_the_old_one_and_a_purge_leaves_nothing(
    bucket: Bucket,
    machine: dict[str, dict[str, str]],
    start_manage: StartManage,
    owner: Client,
    tmp_path: Path,
) -> None:
    video = private_film()
    environment = machine["one"] | {"VIDEOS_GENERATION_GRACE": "1s"}
    start_manage("runworker", env=environment)
    wait_until(lambda: has_ended(video), timeout=300)
    intervening.retranscode(video, qualities=["360p"])
    wait_until(lambda: current(video).number == 2, timeout=300)
    check_watched(owner, video, tmp_path / "watched")
    wait_until(lambda: not any(name.startswith("g1/") for name in bucket.of(video)))
    cached = tmp_path / "one" / "cache"
    wait_until(lambda: not list(cached.iterdir()), timeout=30)
    intervening.delete(video)
    assert bucket.of(video)
    intervening.purge(video)
    wait_until(lambda: not bucket.names())


def test_a_site_of_only_remote_workers_keeps_its_videos_in_the_bucket(
    bucket: Bucket,
    machine: dict[str, dict[str, str]],
    start_manage: StartManage,
    owner: Client,
    tmp_path: Path,
) -> None:
    """Its web server is the one that sends, fetches, verifies and publishes; the worker knows of no bucket."""
    environment = machine["one"] | {"VIDEOS_GENERATION_GRACE": "1s"}
    server = Server(start_manage, environment)
    far = Far("shed", start_manage, tmp_path / "shed", server.port)
    far.start()
    video = private_film()
    wait_until(lambda: has_ended(video), timeout=300)
    check_watched(owner, video, tmp_path / "watched")
    files = bucket.of(video)
    assert {"g1/poster.jpg", "g1/storyboard.vtt", "g1/storyboard_001.jpg", "g1/manifests/thumbnail.json"} <= {
        *files
    }
    intervening.retranscode(video, qualities=["360p"])
    wait_until(lambda: current(video).number == 2, timeout=300)
    check_watched(owner, video, tmp_path / "watched again")
    wait_until(lambda: not any(name.startswith("g1/") for name in bucket.of(video)))
    wait_until(lambda: not list((tmp_path / "one" / "cache").iterdir()), timeout=60)
    assert set(Attempt.objects.values_list("worker_name", flat=True)) == {"shed"}
    assert not Attempt.objects.exclude(error_type="").exists()
