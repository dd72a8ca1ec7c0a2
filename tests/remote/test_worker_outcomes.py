"""Remote workers as real processes, without a database: every way in which a job can end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from django.db.models.functions import Now

from jobs import enqueue, enqueue_many, lifecycle
from jobs.models import Job, Worker
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import events_of, outcomes_of, status_of, stored
from tests.support.queue.workers import wait_for_status
from tests.support.remote.remote_site import RemoteSite, is_ready, lives, started, stop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("script", [True, False], ids=["sprocket-worker", "manage.py runworker"])
def test_a_worker_with_a_url_and_a_key_works_the_queue_off(
    remote_site: RemoteSite, log: str, script: bool
) -> None:
    due = enqueue_many("remote.record", [{"log": log}] * 3, delay=3600)
    Job.objects.filter(pk__in=due).update(run_at=Now())
    ids = enqueue_many("remote.record", [{"log": log}] * 20) + due
    asks = enqueue("remote.no_database")
    remote_site.serve()
    worker = remote_site.work("--drain", key=remote_site.key(), script=script)
    assert worker.wait(timeout=120) == 0, worker.read_output()
    assert sorted(note["job"] for note in read_notes(log)) == sorted(ids)
    assert set(Job.objects.filter(pk__in=ids).values_list("status", "result", "attempt_number")) == {
        ("completed", "recorded", 1)
    }
    assert stored(asks.pk).result in ("ImproperlyConfigured", "OperationalError")
    assert Worker.objects.get().status == "offline", "it has said goodbye"
    assert remote_site.files() == []
    assert "Traceback" not in worker.read_output()


def test_failures_retries_and_timeouts_are_told_as_they_are(remote_site: RemoteSite, log: str) -> None:
    twice = enqueue("remote.fail", log=log, max_attempts=2)
    for_good = enqueue("remote.fail", log=log, how="for good")
    later = enqueue("remote.fail", log=log, how="later", max_attempts=2)
    slow = enqueue("remote.too_slow", log=log)
    alone = enqueue("remote.isolated", log=log)
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key())
    for job in (twice, for_good, later, slow):
        wait_for_status(job, "failed")
    wait_for_status(alone, "completed")
    assert (stored(twice.pk).attempt_number, outcomes_of(twice.pk)) == (2, ["failed", "failed"])
    assert stored(twice.pk).last_error.startswith("RuntimeError: attempt 2 fails")
    assert (stored(for_good.pk).attempt_number, outcomes_of(for_good.pk)) == (1, ["failed"])
    assert "not yet" in stored(later.pk).last_error
    assert stored(slow.pk).last_error.startswith("JobTimeout: ")
    (note,) = [note for note in read_notes(log) if note["job"] == alone.pk]
    assert stored(alone.pk).result == {"pid": note["pid"]} != {"pid": worker.pid}
    assert not Path(note["folder"]).exists()
    assert stop(worker) == 0


def test_a_draining_worker_finishes_or_gives_back(remote_site: RemoteSite, log: str, gate: Path) -> None:
    finishing = enqueue("remote.hold", log=log, gate=str(gate))
    given_back = enqueue("remote.give_back", log=log)
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key())
    started(worker, log, 2)
    worker.send_signal(signal.SIGTERM)
    wait_for_status(given_back, "pending")
    assert (outcomes_of(given_back.pk), stored(given_back.pk).attempt_number) == (["released"], 0)
    assert status_of(finishing) == "processing"
    gate.touch()
    assert worker.wait(timeout=120) == 0
    assert (status_of(finishing), stored(finishing.pk).result) == ("completed", "held")
    assert Worker.objects.get().stopped_at is not None


def test_what_outlasts_the_drain_goes_back_uncounted(remote_site: RemoteSite, log: str, gate: Path) -> None:
    job = enqueue("remote.hold", log=log, gate=str(gate), max_attempts=1)
    isolated = enqueue("remote.stubborn", log=log, max_attempts=1)
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key(), env={"JOBS_DRAIN_TIMEOUT": "200ms"})
    started(worker, log, 2)
    assert stop(worker) == 0
    for held in (job, isolated):
        assert (status_of(held), outcomes_of(held.pk), events_of(held.pk)) == (
            "pending",
            ["released"],
            ["released"],
        )
        assert stored(held.pk).attempt_number == 0
    assert not any(lives(int(str(note["pid"]))) for note in read_notes(log, "started"))


def test_cancelled_jobs_are_stopped_and_cleaned_up(remote_site: RemoteSite, log: str) -> None:
    working, isolated = enqueue("remote.encode", log=log), enqueue("remote.stubborn", log=log)
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key())
    notes = {str(note["job"]): note for note in started(worker, log, 2)}
    lifecycle.cancel(working.pk)
    lifecycle.cancel(isolated.pk)
    child, folder = int(str(notes[working.pk]["child"])), Path(str(notes[working.pk]["folder"]))
    assert lives(child) or read_notes(log, "stopped")
    wait_until(lambda: not lives(child) and not folder.exists())
    wait_until(lambda: not lives(int(str(notes[isolated.pk]["pid"]))))
    assert {status_of(working), status_of(isolated)} == {"cancelled"}
    after = enqueue("remote.record", log=log)
    wait_for_status(after, "completed")
    assert stop(worker) == 0


def test_progress_is_seen_on_the_server(remote_site: RemoteSite, log: str, gate: Path) -> None:
    job = enqueue("remote.progress", log=log, gate=str(gate))
    remote_site.serve()
    worker = remote_site.work("--once", key=remote_site.key())
    wait_until(lambda: is_ready(worker))
    wait_until(lambda: (stored(job.pk).progress_percent, stored(job.pk).current_step) == (30, "going on"))
    gate.touch()
    assert worker.wait(timeout=120) == 0
    assert status_of(job) == "completed"
