"""A claim that has expired is dead before anybody has swept: 409, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest

from jobs import lifecycle
from jobs.models import Job, Status
from tests.conftest import Declare
from tests.support.queue.actors import expire, outcomes_of, status_of, stored
from tests.support.queue.expiry import within_grace as within_grace  # fixtures
from tests.support.queue.expiry import without_grace as without_grace
from tests.support.remote.remote_client import (
    REMOTE,
    VERBS,
    RemoteClient,
    enqueue_remote,
    good,
    new_remote,
    refused,
)
from tests.support.remote.remote_types import Shelf, archive, everything
from tests.support.remote.remote_types import far as far  # fixtures
from tests.support.remote.remote_types import job as job
from tests.support.remote.remote_types import shelf as shelf

pytestmark = pytest.mark.django_db(transaction=True)

Job_ = dict[str, Any]
counts = pytest.mark.usefixtures("without_grace")


def ways(far: RemoteClient, job: Job_) -> list[Any]:
    """All that a worker can say about a job or ask of it."""
    flat = [
        far.send(verb, {"job_id": job["job_id"], **needed})
        for verb, needed in (("progress", {"percent": 5}), ("complete", {}), ("fail", {"message": "no"}))
    ]
    files = [far.put(job, "a.txt", b"late"), far.archive(job, archive(("a.txt", b"late")))]
    given = [far.get(job, "order"), far.get(job, "source"), far.get(job, "files/a.txt")]
    proceeding = far.send(f"jobs/{job['job_id']}/proceed", {"token": job["token"]})
    return [*(far.report(verb, job) for verb in VERBS), *flat, *files, *given, proceeding]


@counts
def test_whatever_a_worker_says_after_its_claim_has_expired_is_refused(
    far: RemoteClient, shelf: Shelf, job: Job_
) -> None:
    good(far.put(job, "a.txt", b"in time"))
    expire(job["job_id"])
    before, rows = everything(shelf), list(Job.objects.values())
    for answer in ways(far, job):
        refused(answer, 409, "lease_lost")
    assert (everything(shelf), list(Job.objects.values())) == (before, rows)
    assert outcomes_of(job["job_id"]) == ["running"], "nobody has swept"


@counts
def test_a_heartbeat_does_not_revive_it_and_says_that_it_is_lost(far: RemoteClient, job: Job_) -> None:
    expire(job["job_id"])
    before = stored(job["job_id"]).claim_expires_at
    told = {"job_id": job["job_id"], "token": job["token"]}
    answer = far.heartbeat("busy", running=[told])
    assert (answer["leases"], answer["stop"]) == ([], [{**told, "reason": "lost"}])
    assert stored(job["job_id"]).claim_expires_at == before


@counts
def test_it_takes_none_of_the_places_of_its_worker(declare: Declare) -> None:
    declare(REMOTE, remote=True)
    far = new_remote("small", concurrency=1)
    first, _ = enqueue_remote(), enqueue_remote()
    stale = far.claim(key="the-same-key")[0]
    assert far.claim() == []
    expire(first)
    assert far.claim(key="the-same-key") == [], "the lease that was given is over"
    fresh = far.claim_one()
    assert (fresh["job_id"], fresh["attempt"]) == (first, 2), (
        "it ended with the claim, and was the first in line"
    )
    assert refused(far.report("complete", stale), 409, "lease_lost")
    good(far.report("complete", fresh))
    assert outcomes_of(first) == ["lost", "completed"]


@pytest.mark.usefixtures("within_grace")
def test_within_the_grace_after_a_restart_it_lives(far: RemoteClient, shelf: Shelf, job: Job_) -> None:
    expire(job["job_id"])
    good(far.put(job, "last.txt", b"late, but in the grace"))
    told = {"job_id": job["job_id"], "token": job["token"]}
    assert far.heartbeat("busy", running=[told])["stop"] == []
    assert lifecycle.recover_expired() == [], "it was renewed"
    expire(job["job_id"])
    good(far.report("progress", job))
    expire(job["job_id"])
    good(far.report("complete", job))
    assert status_of(job["job_id"]) == Status.COMPLETED
