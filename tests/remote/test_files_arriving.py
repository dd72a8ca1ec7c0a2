"""Files that a remote worker sends, one by one: names, sizes, checksums, and a disk that is full."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.models import Job, Status
from tests.support.queue.actors import status_of
from tests.support.remote.remote_client import RemoteClient, good, refused
from tests.support.remote.remote_types import LIMIT, Shelf, everything, sha256_of
from tests.support.remote.remote_types import far as far  # fixtures
from tests.support.remote.remote_types import job as job
from tests.support.remote.remote_types import shelf as shelf
from tests.support.videos.video_site import files_in

pytestmark = pytest.mark.django_db(transaction=True)


def test_files_are_real_when_the_type_says_so_and_the_folder_of_the_lease_goes(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any]
) -> None:
    for _ in range(2):
        sent = good(far.put(job, "a.txt", b"one"))
        assert sent == {"name": "a.txt", "bytes": 3, "sha256": sha256_of(b"one")}
    good(far.put(job, "b/c.txt", b"two"))
    assert not shelf.public.exists()
    refused(far.report("complete", job), 409, "unfinished")
    assert status_of(job["job_id"]) == Status.PROCESSING
    good(far.put(job, "last.txt", b"."))
    assert files_in(shelf.public) == {"a.txt": b"one", "c.txt": b"two", "last.txt": b"."}
    for _ in range(2):
        good(far.report("complete", job))
    assert list(shelf.staging().iterdir()) == []


def test_what_a_type_refuses_to_finish_changes_nothing(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any]
) -> None:
    before = list(Job.objects.values())
    assert "last.txt" in refused(far.report("complete", job, result=1), 409, "unfinished")
    assert list(Job.objects.values()) == before


NAMES = [
    *("..", "../a.txt", "b/../a.txt", "b/..", "./a.txt", ".hidden", "b/.arriving", "/etc/passwd", "/a.txt"),
    *(
        "a.txt/",
        "b//c.txt",
        "b\\c.txt",
        "..\\a.txt",
        "C:a.txt",
        "%00",
        "a.txt%00",
        "a.txt%00.m4s",
        "%2e%2e/a.txt",
    ),
    *(
        "%2E%2E%2Fa.txt",
        "%252e%252e/a.txt",
        "b%5Cc.txt",
        "ａ.txt",
        "а.txt",
        "a․txt",
        "b∕c.txt",
        "a.txt%E2%80%AE",
    ),
    *("A.TXT", "a.txt ", "%20a.txt", "a.txt%0A", "other.txt", "b", "~", "a" * 300, "a/" * 50 + "a", "%FF%FE"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_the_job_may_not_write_is_refused(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], name: str
) -> None:
    good(far.put(job, "a.txt", b"one"))
    before = everything(shelf)
    outside = set(shelf.root.parent.rglob("*"))
    answer = far.put(job, name, b"evil")
    refused(answer, 404 if name == "a.txt%0A" else 422)
    assert everything(shelf) == before
    assert set(shelf.root.parent.rglob("*")) == outside


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"sha256": "0" * 64}, 422),
        ({"sha256": sha256_of(b"one").upper()}, 422),
        ({"sha256": "short"}, 422),
        ({"CONTENT_LENGTH": "2"}, 422),
        ({"CONTENT_LENGTH": "4"}, 422),
        ({"CONTENT_LENGTH": ""}, 411),
        ({"CONTENT_LENGTH": "-1"}, 400),
        ({"CONTENT_LENGTH": "three"}, 400),
        ({"CONTENT_LENGTH": "9" * 30}, 400),
        ({"CONTENT_LENGTH": str(LIMIT + 1)}, 413),
        ({"CONTENT_LENGTH": str(2**59)}, 413),
        ({"X_Lease_Token": "0"}, 422),
        ({"X_Lease_Token": "one"}, 422),
        ({"X_Lease_Token": str(2**63)}, 422),
    ],
)
def test_a_file_that_is_not_what_was_announced_leaves_nothing(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], more: dict[str, str], status: int
) -> None:
    refused(far.put(job, "a.txt", b"one", **more), status)
    assert everything(shelf) == {}
    good(far.put(job, "a.txt", b"one"))


def test_a_file_that_the_type_refuses_leaves_nothing_and_what_was_there_stays(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any]
) -> None:
    good(far.put(job, "a.txt", b"one"))
    before = everything(shelf)
    assert refused(far.put(job, "a.txt", b"bad one"), 422, "refused") == "a.txt is bad"
    assert everything(shelf) == before


def test_a_large_file_is_taken_up_to_the_limit(far: RemoteClient, shelf: Shelf, job: dict[str, Any]) -> None:
    assert good(far.put(job, "a.txt", b"x" * LIMIT))["bytes"] == LIMIT
    assert refused(far.put(job, "a.txt", b"x" * (LIMIT + 1)), 413, "too_large")
