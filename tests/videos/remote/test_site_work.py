"""What the site does itself in the name of a remote worker's lease: publishing, in bounded requests, and removing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs import enqueue, lifecycle, type_control
from jobs.models import Job, Status
from jobs.testing import run_due_jobs
from jobs.ulid import new_ulid
from tests.support.queue.actors import status_of, stored
from tests.support.remote.remote_client import REMOTE, RemoteClient, enqueue_remote, good, new_remote, refused
from tests.support.remote.remote_films import claim
from tests.support.videos.codes import error_types
from tests.support.videos.video_site import accept, check_published, clip, current, files_in, only_transcode
from videos import intervening, site_work, storage, toolchains
from videos.models import Video, VideoStatus

pytestmark = pytest.mark.django_db(transaction=True)

FINALIZE, REMOVE = "videos.finalize", "videos.remove_files"


@pytest.fixture
def far(declare: Any, videos_root: Path) -> RemoteClient:
    declare(REMOTE, remote=True)
    return new_remote("far", capabilities=sorted(toolchains.here().capabilities))


@pytest.fixture
def video(videos_root: Path) -> Video:
    """All but published."""
    video = accept(clip(100))
    type_control.pause([FINALIZE])
    run_due_jobs()
    type_control.resume([FINALIZE])
    return video


def proceed(far: RemoteClient, job: dict[str, Any], **fields: Any) -> Any:
    return far.send(f"jobs/{job['job_id']}/proceed", {"token": job["token"], **fields})


def test_publishing_goes_on_from_request_to_request(
    far: RemoteClient, video: Video, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_work, "SECONDS", 0.0)  # one step at a time
    job = claim(far, FINALIZE)
    refused(far.report("complete", job), 409, "unfinished")
    shares = [good(proceed(far, job))]
    while not shares[-1]["done"]:
        shares.append(good(proceed(far, job)))
    percents = [share["percent"] for share in shares]
    assert percents == sorted(percents)
    assert (len(shares) > 5, percents[-1]) == (True, 100.0)
    video.refresh_from_db()
    assert video.status != VideoStatus.READY
    good(far.report("complete", job))
    check_published(video)
    assert current(video).renditions.count() == 2
    good(far.report("complete", job))  # whose answer got lost
    assert list((storage.workplace() / "remote").iterdir()) == []


def test_what_is_damaged_is_not_published_whatever_the_worker_says(far: RemoteClient, video: Video) -> None:
    segment = storage.generation(only_transcode(video)) / "360p/seg_00002.m4s"
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    job = claim(far, FINALIZE)
    refused(far.report("complete", job, result={"verified": True}), 409, "lease_lost")
    row = stored(job["job_id"])
    assert row.status in (Status.WAITING, Status.PENDING)
    assert error_types(job=row.pk) == {"NotConformant"}
    assert "360p/seg_00002.m4s" in row.last_error
    video.refresh_from_db()
    assert video.current is None


def test_a_cancelled_generation_is_not_published(far: RemoteClient, video: Video) -> None:
    job = claim(far, FINALIZE)
    good(proceed(far, job))
    intervening.cancel(video)
    refused(far.report("complete", job), 409, "lease_lost")
    refused(proceed(far, job), 409, "lease_lost")
    video.refresh_from_db()
    assert video.current is None
    assert list((storage.workplace() / "remote").iterdir()) == []


def test_nobody_else_can_ask_the_site_to_proceed(far: RemoteClient, video: Video) -> None:
    job = claim(far, FINALIZE)
    other = new_remote("other")
    refused(proceed(other, job), 404)
    refused(proceed(far, {**job, "token": job["token"] + 1}), 409, "lease_lost")
    refused(proceed(far, {**job, "job_id": "x"}), 404)
    for wrong in ({"token": 0}, {"token": "1"}, {"token": True}, {"steps": 99}, {"token": None}):
        refused(proceed(far, job, **wrong), 422)
    for verb in ("order", "source", "files/360p/init.mp4"):
        refused(other.get(job, verb), 404)
    for name in ("steps.json", ".notes/steps.json", "notes/steps.json", "master.m3u8"):
        refused(far.put(job, name, b"99"), 422)


def test_a_job_without_a_part_of_the_site_is_done_at_once(far: RemoteClient) -> None:
    enqueue_remote()
    job = far.claim(types=[REMOTE])[0]
    assert good(proceed(far, job)) == {"done": True, "percent": 100.0}
    refused(far.get(job, "files/a.txt"), 404)
    assert status_of(job["job_id"]) == Status.PROCESSING


# -- removing ----------------------------------------------------------------------------------------------------------


def test_files_are_removed_by_the_site_when_the_job_is_completed(far: RemoteClient) -> None:
    video_id = new_ulid()
    kept = storage.video_folder(new_ulid())
    for folder in (storage.video_folder(video_id), kept):
        (folder / "g1").mkdir(parents=True)
        (folder / "g1" / "a.m4s").write_bytes(b"x")
    enqueue(REMOVE, video_id=video_id)
    job = claim(far, REMOVE)
    refused(new_remote("other").report("complete", job), 404)
    assert storage.video_folder(video_id).exists()
    good(far.report("complete", job, result={"path": str(kept)}))
    assert not storage.video_folder(video_id).exists()
    assert files_in(kept) == {"g1/a.m4s": b"x"}


def test_what_must_not_go_yet_is_put_off_and_what_must_stay_stays(far: RemoteClient, video: Video) -> None:
    run_due_jobs()
    check_published(video)
    before = files_in(storage.video_folder(video.pk))
    enqueue(REMOVE, video_id=video.pk)
    job = claim(far, REMOVE)
    refused(far.report("complete", job), 409, "lease_lost")
    assert error_types(job=job["job_id"]) == {"VideoExists"}
    again = intervening.retranscode(video)
    run_due_jobs()
    again.refresh_from_db()
    Job.objects.filter(type=REMOVE, status=Status.WAITING).update(status=Status.PENDING)
    job = claim(far, REMOVE)
    refused(far.report("complete", job), 409, "lease_lost")
    row = stored(job["job_id"])
    assert (row.status, row.attempt_number) == (Status.WAITING, 0)
    assert error_types(job=row.pk) == {"RetryLater"}
    assert before.items() <= files_in(storage.video_folder(video.pk)).items()


def test_a_lease_that_is_over_removes_nothing(far: RemoteClient) -> None:
    video_id = new_ulid()
    storage.video_folder(video_id).mkdir(parents=True)
    job_id = str(enqueue(REMOVE, video_id=video_id).pk)
    job = claim(far, REMOVE)
    lifecycle.cancel([job_id], reason="no")
    refused(far.report("complete", job), 409, "lease_lost")
    assert storage.video_folder(video_id).exists()


# -- is there anything left --------------------------------------------------------------------------------------------


def test_a_worker_is_told_whether_anything_is_left_that_it_could_run(far: RemoteClient) -> None:
    def empty(client: RemoteClient) -> bool:
        answer = good(client._client.get("/api/worker/empty", headers={"X-Worker-API-Key": client.key}))
        return bool(answer["empty"])

    narrow = new_remote("narrow")
    narrow.heartbeat(types=[FINALIZE])
    assert empty(far)
    later = enqueue(REMOTE, delay=timedelta(hours=1))
    assert empty(far), "it is not due"
    Job.objects.filter(pk=later.pk).delete()
    enqueue_remote()
    assert (empty(far), empty(narrow)) == (False, True)
    job = far.claim(types=[REMOTE])[0]
    assert not empty(far), "somebody runs it"
    good(far.report("complete", job))
    assert empty(far)
