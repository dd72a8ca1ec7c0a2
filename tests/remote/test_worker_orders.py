"""What people want of a remote worker: it stops what it runs at once, cleans up, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import cancel, enqueue, fleet, worker_keys
from jobs.models import Job, Worker
from tests.jobapp.notes import read_notes
from tests.support.processes import ManageProcess, has_logged, wait_until
from tests.support.queue.actors import outcomes_of, status_of, stored
from tests.support.queue.workers import wait_for_status
from tests.support.remote.remote_site import RemoteSite, lives, started

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(log: str, remote_site: RemoteSite) -> Job:
    return enqueue("remote.encode", log=log)


@pytest.fixture
def worker(remote_site: RemoteSite, job: Job, log: str) -> ManageProcess:
    """Busy with the job."""
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key())
    started(worker, log)
    return worker


def stopped(log: str) -> bool:
    """What the job has started is gone, and so are its files."""
    (note,) = read_notes(log, "started")
    return not lives(note["child"]) and not Path(note["folder"]).exists()


def last_line(worker: ManageProcess) -> str:
    return worker.read_output().strip().splitlines()[-1]


def test_a_revoked_key_ends_the_worker_and_its_jobs_at_once(
    worker: ManageProcess, job: Job, log: str, remote_site: RemoteSite
) -> None:
    worker_keys.revoke_all(Worker.objects.get())
    assert worker.wait(timeout=120) == 1
    assert stopped(log)
    assert remote_site.files() == []
    assert last_line(worker).startswith("sprocket-worker: ")
    assert "revoked" in last_line(worker)
    assert "Traceback" not in worker.read_output()
    assert status_of(job) == "processing", "nobody could say how it ended: its lease runs out"


def test_a_disabled_worker_stops_rests_and_goes_on_when_it_is_enabled(
    worker: ManageProcess, job: Job, log: str
) -> None:
    (pk,) = Worker.objects.values_list("pk", flat=True)
    fleet.disable([pk])
    wait_until(lambda: stopped(log))
    wait_for_status(job, "pending")
    assert (outcomes_of(job.pk), stored(job.pk).attempt_number) == (["released"], 0)
    wait_until(lambda: has_logged(worker, "worker_disabled"))
    assert worker.poll() is None
    other = enqueue("remote.record", log=log)
    fleet.enable([pk])
    wait_for_status(other, "completed")
    wait_until(lambda: len(read_notes(log, "started")) == 2)


def test_an_outdated_worker_ends_and_names_the_version_that_is_wanted(
    worker: ManageProcess, job: Job, log: str, remote_site: RemoteSite
) -> None:
    Worker.objects.update(version="0.0.1")  # the one from the checkout cannot be too old
    remote_site.kill_server()
    remote_site.serve(JOBS_MIN_WORKER_VERSION="7.5")
    assert worker.wait(timeout=120) == 1
    assert stopped(log)
    assert "7.5" in last_line(worker)
    assert (status_of(job), outcomes_of(job.pk)) == ("pending", ["released"])
    assert Worker.objects.get().stopped_at is not None


def test_a_worker_that_is_asked_to_drain_ends_by_itself(
    remote_site: RemoteSite, log: str, gate: Path
) -> None:
    job = enqueue("remote.hold", log=log, gate=str(gate))
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key())
    started(worker, log)
    fleet.drain([Worker.objects.get().pk])
    wait_until(lambda: has_logged(worker, "asked_to_drain"))
    gate.touch()
    assert worker.wait(timeout=120) == 0
    assert status_of(job) == "completed"


@pytest.mark.parametrize(("grace", "type_name"), [("1h", "remote.clean_up"), ("300ms", "remote.deaf")])
def test_a_cancelled_job_may_clean_up_and_is_interrupted_when_its_grace_is_over(
    remote_site: RemoteSite, log: str, gate: Path, grace: str, type_name: str
) -> None:
    job = enqueue(type_name, {"log": log} | ({"gate": str(gate)} if type_name == "remote.clean_up" else {}))
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key(), env={"JOBS_CANCEL_GRACE": grace})
    started(worker, log)
    cancel(job.pk)
    if type_name == "remote.clean_up":
        assert wait_until(lambda: read_notes(log, "asked"))[0]["reason"] == "cancelled"
        gate.touch()
        wait_until(lambda: read_notes(log, "cleaned"))
    else:
        assert wait_until(lambda: read_notes(log, "interrupted"))[0]["by"] == "JobCancelled"
    wait_for_status(enqueue("remote.record", log=log), "completed")
    assert (status_of(job), outcomes_of(job.pk)) == ("cancelled", ["cancelled"])
