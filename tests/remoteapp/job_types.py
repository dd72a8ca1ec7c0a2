"""What remote workers run in the tests."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from jobs import JobContext, JobStopped, PermanentFailure, RetryLater, job_type
from jobs.remote_work import FileRefused, RemoteJob, RemoteWork, SourceFile
from tests.jobapp.notes import note, note_stop, wait_for_file


@job_type("remote.record", remote=True)
def record(job: JobContext, log: str) -> str:
    note(log, job)
    return "recorded"


@job_type("remote.hold", remote=True)
def hold(job: JobContext, log: str, gate: str) -> str:
    """Run until the file `gate` exists, whatever the worker wishes."""
    note(log, job, "started")
    wait_for_file(gate)
    note(log, job, "finished", should_stop=job.should_stop)
    return "held"


@job_type("remote.give_back", remote=True)
def give_back(job: JobContext, log: str) -> None:
    note(log, job, "started")
    while True:
        job.raise_if_stopped()
        time.sleep(0.01)


@job_type("remote.fail", remote=True)
def fail(job: JobContext, log: str, *, how: str = "") -> None:
    note(log, job)
    if how == "for good":
        raise PermanentFailure("it cannot work")
    if how == "later":
        raise RetryLater(0.05, "not yet")
    raise RuntimeError(f"attempt {job.attempt} fails\x00\udcff")


@job_type("remote.too_slow", remote=True, timeout=timedelta(seconds=0.3), max_attempts=1)
def too_slow(job: JobContext, log: str) -> None:
    note(log, job)
    while True:
        time.sleep(0.01)


@job_type("remote.isolated", remote=True, isolate=True)
def isolated(job: JobContext, log: str) -> dict[str, Any]:
    assert job.site is not None
    (job.site.folder / "mark").touch()
    note(log, job, folder=str(job.site.folder))
    job.progress(40, step="half way")
    return {"pid": os.getpid()}


@job_type("remote.talk", remote=True)
def talk(job: JobContext) -> None:
    logging.getLogger("tests").warning("hello from %s", job.id)


@job_type("remote.isolated_talk", remote=True, isolate=True)
def isolated_talk(job: JobContext) -> None:
    talk(job)


@job_type("remote.progress", remote=True)
def progress(job: JobContext, log: str, gate: str) -> None:
    note(log, job, "started")
    while not Path(gate).exists():
        job.progress(30, step="going on")
        time.sleep(0.01)


@job_type("remote.encode", remote=True)
def encode(job: JobContext, log: str) -> None:
    """As a handler with ffmpeg: another process does the work, and is killed when the job stops."""
    assert job.site is not None
    (job.site.folder / "half").write_text("a file that is not finished")
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        note(log, job, "started", child=process.pid, folder=str(job.site.folder))
        while True:
            job.progress(50)
            time.sleep(0.02)
    except JobStopped:
        note_stop(log, job)
        raise
    finally:
        process.kill()
        process.wait()


@job_type("remote.clean_up", remote=True)
def clean_up(job: JobContext, log: str, gate: str) -> None:
    """Run until told to stop; then clean up, which takes until the file `gate` exists."""
    note(log, job, "started")
    while not job.should_stop:
        time.sleep(0.01)
    note(log, job, "asked", reason=job.stop_reason)
    wait_for_file(gate)
    note(log, job, "cleaned")


@job_type("remote.deaf", remote=True)
def deaf(job: JobContext, log: str) -> None:
    note(log, job, "started")
    try:
        while True:
            time.sleep(0.01)
    except JobStopped as error:
        note(log, job, "interrupted", by=type(error).__name__)
        raise


@job_type("remote.stubborn", remote=True, isolate=True)
def stubborn(job: JobContext, log: str) -> None:
    """Sees no order to stop."""
    note(log, job, "started")
    time.sleep(600)


@job_type("remote.no_database", remote=True)
def no_database(job: JobContext) -> str:
    """What the worker can see of a database: nothing."""
    from django.db import connection

    try:
        connection.ensure_connection()
    except Exception as error:
        return type(error).__name__
    return "there is one"


# -- files -------------------------------------------------------------------------------------------------------------


class Copies(RemoteWork):
    """Three copies of the source; the file `last` makes them real."""

    def order(self, job: RemoteJob) -> dict[str, Any]:
        return {"copies": 3}

    def source(self, job: RemoteJob) -> SourceFile:
        path = Path(job.payload["source"])
        return SourceFile(path, path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())

    def staging(self) -> Path | None:
        place = os.environ.get("TESTS_STAGING")  # only where the server runs
        return Path(place) if place else None

    def file_limit(self, job: RemoteJob, name: str) -> int | None:
        return 1 << 30 if name == "last" or name.startswith("copies/") else None

    def stored(self, job: RemoteJob, name: str, staged: Path) -> None:
        if name == "last":
            (staged / "copies").rename(job.payload["target"])

    def finish(self, job: RemoteJob, result: Any) -> None:
        if not Path(job.payload["target"]).exists():
            raise FileRefused("the copies are missing")


def copies_exist(payload: dict[str, Any]) -> bool:
    return Path(payload["target"]).exists()


@job_type("remote.copies", remote=Copies(), artifact=copies_exist, max_attempts=3)
def copy(job: JobContext, log: str, source: str, target: str, *, gate: str = "", how: str = "") -> str:
    assert job.site is not None
    film = job.site.source()
    note(log, job, "started", film=str(film), folder=str(job.site.folder))
    for number in range(job.site.order["copies"]):
        mine = job.site.folder / f"{number}.bin"
        shutil.copyfile(film, mine)
        job.site.send(f"{how or 'copies'}/{number}.bin", mine)
        note(log, job, "sent")
        if gate:
            wait_for_file(gate)
    if how != "copies":
        (job.site.folder / "last").touch()
        job.site.send("last", job.site.folder / "last")
    return "copied"


@job_type("remote.copies_alone", remote=Copies(), isolate=True, artifact=copies_exist)
def copy_alone(job: JobContext, log: str, source: str, target: str) -> str:
    return copy(job, log, source, target)
