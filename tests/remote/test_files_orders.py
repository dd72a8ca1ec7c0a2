"""What a remote worker is given to run a job: the order of its type, and the source."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from jobs import LeaseLost, PermanentFailure, RetryLater, file_responses, lifecycle
from jobs.models import Status
from tests.conftest import Declare
from tests.support.queue.actors import status_of, stored
from tests.support.remote.remote_client import REMOTE, RemoteClient, good, refused
from tests.support.remote.remote_types import FILES, Shelf, claim_files, sha256_of
from tests.support.remote.remote_types import far as far  # fixtures
from tests.support.remote.remote_types import job as job
from tests.support.remote.remote_types import shelf as shelf

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_order_is_what_the_type_adds(far: RemoteClient, shelf: Shelf, job: dict[str, Any]) -> None:
    order = {"greeting": "hello far-away", "attempt": 1}
    assert good(far.get(job, "order")) == {"done": False, "order": order, "source": None}
    (shelf.root / "source.bin").write_bytes(b"film")
    source = {"name": "source.bin", "bytes": 4, "sha256": sha256_of(b"film")}
    assert good(far.get(job, "order"))["source"] == source


def test_a_type_without_more_has_an_empty_order(far: RemoteClient) -> None:
    lifecycle.enqueue(REMOTE)
    job = far.claim_one()
    assert good(far.get(job, "order")) == {"done": False, "order": {}, "source": None}
    refused(far.get(job, "source"), 404, "not_found")
    refused(far.put(job, "a.txt", b"x"), 422, "refused")
    refused(far.archive(job, b"x"), 422, "refused")


def test_a_result_that_exists_already_is_only_to_be_completed(
    far: RemoteClient, shelf: Shelf, declare: Declare
) -> None:
    declare(FILES, remote=shelf, artifact=lambda payload: True)
    job = claim_files(far)
    assert good(far.get(job, "order")) == {"done": True, "order": {}, "source": None}


@pytest.mark.parametrize(
    ("decision", "status", "attempts"),
    [
        (RetryLater(timedelta(minutes=5), "not here", counted=False), Status.WAITING, 0),
        (RetryLater(timedelta(minutes=5), "not now"), Status.WAITING, 1),
        (PermanentFailure("never"), Status.FAILED, 1),
    ],
)
def test_what_the_type_decides_about_this_worker_is_applied_to_the_lease(
    far: RemoteClient,
    shelf: Shelf,
    job: dict[str, Any],
    decision: BaseException,
    status: Status,
    attempts: int,
) -> None:
    shelf.orders = [decision]
    refused(far.get(job, "order"), 409, "lease_lost")
    row = stored(job["job_id"])
    assert (row.status, row.attempt_number) == (status, attempts)
    assert str(decision) in row.last_error


def test_a_type_may_have_taken_the_job_away(far: RemoteClient, shelf: Shelf, job: dict[str, Any]) -> None:
    shelf.orders = [LeaseLost(job["job_id"])]
    refused(far.get(job, "order"), 409, "lease_lost")
    assert status_of(job["job_id"]) == Status.PROCESSING


def test_an_order_that_cannot_be_given_is_an_error_of_the_server_and_the_job_goes_on(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any]
) -> None:
    shelf.orders = [RuntimeError("a secret path")]
    assert "secret" not in refused(far.get(job, "order"), 500, "internal")
    assert status_of(job["job_id"]) == Status.PROCESSING


# -- the source -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ({}, 200, slice(None)),
        ({"Range": "bytes=10-19"}, 206, slice(10, 20)),
        ({"Range": "bytes=90-"}, 206, slice(90, None)),
        ({"Range": "bytes=-5"}, 206, slice(-5, None)),
        ({"Range": "bytes=100-"}, 416, slice(0)),
        ({"Range": f"bytes={'9' * 5000}-"}, 200, slice(None)),
        ({"Range": "bytes=a-b"}, 200, slice(None)),
        ({"Range": "bytes=10-", "If-Range": '"another"'}, 200, slice(None)),
    ],
)
def test_a_source_is_fetched_whole_or_in_part(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], asked: dict[str, str], status: int, part: slice
) -> None:
    film = bytes(range(100))
    (shelf.root / "source.bin").write_bytes(film)
    answer = far.get(job, "source", **asked)
    assert answer.status_code == status
    if status == 416:
        refused(answer, 416, "bad_range")
        assert answer["Content-Range"] == "bytes */100"
        return
    assert answer["ETag"] == f'"{sha256_of(film)}"'
    assert answer["Cache-Control"] == "no-store"
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert body == film[part]


def test_a_source_goes_on_where_it_broke_off(far: RemoteClient, shelf: Shelf, job: dict[str, Any]) -> None:
    (shelf.root / "source.bin").write_bytes(b"film")
    answer = far.get(job, "source", Range="bytes=2-", If_Range=f'"{sha256_of(b"film")}"')
    assert (answer.status_code, b"".join(answer.streaming_content)) == (206, b"lm")


def test_under_asgi_a_source_is_sent_block_by_block(
    far: RemoteClient,
    shelf: Shelf,
    job: dict[str, Any],
    async_client: AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_responses, "BLOCK", 1000)
    film = bytes(2500)
    (shelf.root / "source.bin").write_bytes(film)

    async def blocks() -> list[bytes]:
        response: Any = await async_client.get(
            f"/api/worker/jobs/{job['job_id']}/source",
            headers={"Authorization": f"Bearer {far.key}", "X-Lease-Token": str(job["token"])},
        )
        assert (response.status_code, response.is_async) == (200, True)
        return [block async for block in response.streaming_content]

    assert [len(block) for block in async_to_sync(blocks)()] == [1000, 1000, 500]
