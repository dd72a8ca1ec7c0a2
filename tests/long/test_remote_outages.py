"""A server or a wire that is away for longer than a request: the remote worker waits, or gives its job up."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import enqueue, enqueue_many
from jobs.models import Job
from tests.jobapp.notes import read_notes
from tests.support.processes import has_logged, wait_until
from tests.support.queue.actors import outcomes_of, stored
from tests.support.queue.workers import wait_for_status
from tests.support.remote.remote_site import RemoteSite, started, stop

pytestmark = pytest.mark.django_db(transaction=True)

SHORT = {"JOBS_CLAIM_DURATION": "2s"}


def test_a_server_that_is_killed_and_started_again_costs_nothing(remote_site: RemoteSite, log: str) -> None:
    ids = enqueue_many("remote.record", [{"log": log}] * 150)
    remote_site.serve()
    worker = remote_site.work("--concurrency=2", key=remote_site.key())
    wait_until(lambda: len(read_notes(log)) > 10, interval=0.005)
    remote_site.kill_server()
    wait_until(lambda: has_logged(worker, "claim_failed") or has_logged(worker, "report_failed"))
    remote_site.serve()
    wait_until(lambda: Job.objects.completed().count() == len(ids))
    assert sorted(note["job"] for note in read_notes(log)) == sorted(ids), "each has run once"
    assert not Job.objects.exclude(attempt_number=1).exists()
    assert stop(worker) == 0
    assert "Traceback" not in worker.read_output()


def test_an_outcome_is_kept_until_the_server_is_back(remote_site: RemoteSite, log: str, gate: Path) -> None:
    job = enqueue("remote.hold", log=log, gate=str(gate))
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key())
    started(worker, log)
    remote_site.wire.cut()
    gate.touch()
    wait_until(lambda: read_notes(log, "finished"))
    wait_until(lambda: has_logged(worker, "report_failed"))
    remote_site.wire.mend()
    wait_for_status(job, "completed")
    assert (stored(job.pk).result, outcomes_of(job.pk)) == ("held", ["completed"])


def test_a_lease_that_cannot_be_renewed_ends_the_job(remote_site: RemoteSite, log: str) -> None:
    job = enqueue("remote.encode", log=log)
    remote_site.serve(**SHORT)
    worker = remote_site.work(key=remote_site.key())
    (note,) = started(worker, log)
    remote_site.wire.cut()
    wait_until(lambda: read_notes(log, "stopped"))
    wait_until(lambda: not Path(note["folder"]).exists())
    assert has_logged(worker, "lease_not_renewed")
    remote_site.wire.mend()
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    assert outcomes_of(job.pk)[0] == "lost"
