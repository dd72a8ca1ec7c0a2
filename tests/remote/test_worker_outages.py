"""Servers that restart, wires that are cut, workers that are killed: nothing is lost, nothing runs twice in vain."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from jobs import enqueue
from jobs.models import Worker
from tests.jobapp.notes import read_notes
from tests.support.processes import has_logged, wait_until
from tests.support.queue.actors import outcomes_of, status_of, stored
from tests.support.queue.workers import wait_for_status
from tests.support.remote.remote_site import RemoteSite, is_ready, started, stop

pytestmark = pytest.mark.django_db(transaction=True)

SHORT = {"JOBS_CLAIM_DURATION": "2s"}


@pytest.mark.parametrize("path", ["/worker/claim", "/complete"])
def test_an_answer_that_was_lost_is_asked_for_again(remote_site: RemoteSite, log: str, path: str) -> None:
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key())
    wait_until(lambda: is_ready(worker))
    remote_site.wire.swallow_answer_to(path)
    wait_until(lambda: path == "/complete" or remote_site.wire.swallowed)
    if path == "/worker/claim":
        remote_site.wire.swallow_answer_to(path)
    jobs = [enqueue("remote.record", log=log) for _ in range(3)]
    for job in jobs:
        wait_for_status(job, "completed")
    assert len(read_notes(log)) == len(jobs), "each has run once"
    assert {stored(job.pk).attempt_number for job in jobs} == {1}
    assert remote_site.wire.swallowed
    assert stop(worker) == 0


def test_what_a_lost_claim_gave_is_given_back_at_the_end(remote_site: RemoteSite, log: str) -> None:
    """The worker hears of none of its jobs, and stops."""
    job = enqueue("remote.record", log=log)
    remote_site.serve()
    remote_site.wire.swallow_answer_to("/worker/claim")
    worker = remote_site.work(key=remote_site.key())
    wait_until(lambda: remote_site.wire.swallowed)
    stop(worker)
    if not read_notes(log):  # the second answer came too late
        assert (status_of(job), outcomes_of(job.pk)) == ("pending", ["released"])
        assert stored(job.pk).attempt_number == 0


def test_a_worker_that_is_cut_off_stops_the_job_and_its_late_report_is_refused(
    remote_site: RemoteSite, log: str, gate: Path
) -> None:
    job = enqueue("remote.hold", log=log, gate=str(gate), max_attempts=3)
    remote_site.serve(**SHORT)
    near = remote_site.work(key=remote_site.key("near"), server=remote_site.url, env={"SPROCKET_APPS": ""})
    wait_until(lambda: is_ready(near))
    started(near, log)
    stop_near = near.pid
    os.kill(stop_near, signal.SIGSTOP)  # as a machine that sleeps: it cannot even stop its job
    far = remote_site.work(key=remote_site.key("far"))
    started(far, log, 2)
    gate.touch()
    wait_for_status(job, "completed")
    os.kill(stop_near, signal.SIGCONT)
    wait_until(lambda: has_logged(near, "lease_lost") or has_logged(near, "stopping_job"))
    assert outcomes_of(job.pk) == ["lost", "completed"]
    assert stored(job.pk).attempt_number == 2
    after = enqueue("remote.record", log=log)
    wait_for_status(after, "completed")
    assert stop(near) == 0


def test_a_killed_worker_s_job_runs_again_and_its_files_go(remote_site: RemoteSite, log: str) -> None:
    job = enqueue("remote.encode", log=log)
    remote_site.serve(**SHORT)
    key, folder = remote_site.key(), remote_site.folder(1)
    worker = remote_site.work(key=key)
    (note,) = started(worker, log)
    worker.kill_group()
    assert Path(note["folder"]).exists()
    other = remote_site.work(key=remote_site.key("other"))
    notes = started(other, log, 2)
    assert notes[1]["attempt"] == 2
    assert outcomes_of(job.pk)[0] == "lost"
    again = remote_site.work(key=key, folder=folder)
    wait_until(lambda: is_ready(again))
    assert not Path(note["folder"]).exists()
    assert Path(notes[1]["folder"]).exists(), "another one's are not touched"
    assert Worker.objects.filter(stopped_at__isnull=True).count() == 2
