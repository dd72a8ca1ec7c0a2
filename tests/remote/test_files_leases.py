"""Files are bound to a live lease: others see nothing, late ones change nothing, and what is left over goes."""

from __future__ import annotations

from typing import Any

import pytest

from jobs import lifecycle, reconcile, staging
from jobs.models import Job, Status
from jobs.signals import Transition
from tests.support.queue.actors import expire, stored
from tests.support.remote.remote_client import RemoteClient, good, new_remote, refused
from tests.support.remote.remote_types import FILES, Shelf, everything
from tests.support.remote.remote_types import far as far  # fixtures
from tests.support.remote.remote_types import job as job
from tests.support.remote.remote_types import shelf as shelf

pytestmark = pytest.mark.django_db(transaction=True)


def ways(far: RemoteClient, job: dict[str, Any]) -> list[Any]:
    return [
        far.get(job, "order"),
        far.get(job, "source"),
        far.put(job, "a.txt", b"evil"),
        far.put(job, "nonsense", b"evil"),
        far.archive(job, b"evil"),
    ]


def test_the_job_of_another_worker_does_not_exist(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any]
) -> None:
    good(far.put(job, "a.txt", b"one"))
    before, rows = everything(shelf), list(Job.objects.values())
    other = new_remote("other")
    for answer in [
        *ways(other, job),
        *ways(other, {"job_id": "0" * 26, "token": 1}),
        *ways(other, {"job_id": "..", "token": 1}),
    ]:
        refused(answer, 404, "not_found")
    assert (everything(shelf), list(Job.objects.values())) == (before, rows)


def test_a_stale_token_is_refused_and_the_files_of_the_new_lease_stay(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any]
) -> None:
    good(far.put(job, "a.txt", b"old"))
    expire(job["job_id"])
    lifecycle.recover_expired()
    assert everything(shelf) == {}, "the partial files of the old lease are gone"
    (fresh,) = far.claim(types=[FILES])
    good(far.put(fresh, "a.txt", b"new"))
    before = everything(shelf)
    for token in (job["token"], fresh["token"] + 1, 2**63 - 1):
        for answer in ways(far, {**job, "token": token}):
            refused(answer, 409, "lease_lost")
    assert everything(shelf) == before


@pytest.mark.parametrize("end", ["complete", "fail", "release", "cancel"])
def test_the_files_of_a_job_that_is_over_cannot_be_changed(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], end: str
) -> None:
    good(far.put(job, "a.txt", b"one"))
    good(far.put(job, "last.txt", b"."))
    good(far.put(job, "b/c.txt", b"left over"))
    if end == "cancel":
        lifecycle.cancel(job["job_id"])
    else:
        good(far.report(end, job))
    before = everything(shelf)
    assert set(before) == {"public/a.txt", "public/last.txt"}
    for answer in ways(far, job):
        refused(answer, 409, "lease_lost")
    assert everything(shelf) == before


def test_a_lease_that_ends_while_a_file_arrives_takes_the_file_with_it(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shelf, "check", lambda *args: lifecycle.cancel(job["job_id"]))
    refused(far.put(job, "a.txt", b"one"), 409, "lease_lost")
    assert list(shelf.staging().iterdir()) == []


def test_an_attempt_that_does_not_count_is_given_back(far: RemoteClient, job: dict[str, Any]) -> None:
    for _ in range(2):
        good(far.report("fail", job, counted=False, retry_in_seconds=60))
    assert (stored(job["job_id"]).status, stored(job["job_id"]).attempt_number) == (Status.WAITING, 0)


# -- what a killed server leaves --------------------------------------------------------------------------------------


def test_reconcile_removes_the_folders_of_leases_that_are_over_and_no_others(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any]
) -> None:
    good(far.put(job, "a.txt", b"one"))
    place = shelf.staging()
    for name in (f"{job['job_id']}-{job['token'] + 1}", f"{'0' * 26}-1", "somebody-else"):
        (place / name / ".arriving" / "tmp").mkdir(parents=True)
        (place / name / ".arriving" / "tmp" / "file").write_bytes(b"half")
    assert len([finding for finding in reconcile.reconcile(dry_run=True) if finding.type == "files"]) == 2
    assert len(list(place.iterdir())) == 4
    findings = [str(finding) for finding in reconcile.reconcile() if finding.type == "files"]
    assert len(findings) == 2
    assert {path.name for path in place.iterdir()} == {f"{job['job_id']}-{job['token']}", "somebody-else"}
    good(far.put(job, "last.txt", b"."))


def test_the_end_of_a_job_costs_no_query_for_its_files(
    far: RemoteClient, job: dict[str, Any], django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        staging.clean_up(None, [Transition(job["job_id"], FILES, "processing", "completed")])
