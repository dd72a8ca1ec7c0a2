"""Job types of the tests; importable by worker processes."""

import asyncio
import fcntl
import json
import logging
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.models.signals import post_save

from jobs import JobContext, JobStopped, job_type, periodic
from jobs.models import Firing, Job
from tests.jobapp import fake_gpu, hostile
from tests.jobapp.notes import note, note_stop, wait_for_file


def heed_environment() -> None:
    """What a test asks of one process. Called again in a fork (tests/support/fork_server.py), which has its own."""
    if "TESTS_FAKE_GPU" in os.environ:
        fake_gpu.install()
    if "TESTS_DIE_WHILE_FIRING" in os.environ:
        # After the job and its firing are written, before the transaction is committed.
        post_save.connect(lambda **kwargs: os.kill(os.getpid(), signal.SIGKILL), sender=Firing, weak=False)
    for declared in json.loads(os.environ.get("TESTS_PERIODIC", "[]")):
        periodic(declared.pop("type"), **declared)


heed_environment()


@job_type("tests.noop")
def noop(job: JobContext) -> None:
    """Do nothing."""


@job_type("work.record")
def record(job: JobContext, log: str) -> None:
    """Write down that it ran."""
    note(log, job)


@job_type("work.make", artifact=lambda payload: Path(payload["path"]).exists())
def make(job: JobContext, log: str, path: str) -> str:
    """Write a file, unless it is there."""
    note(log, job)
    Path(path).touch()
    return "made"


@job_type("work.needs_gpu", requires=["gpu"])
def need_gpu(job: JobContext, log: str) -> None:
    note(log, job)


@job_type("work.hold")
def hold(job: JobContext, log: str, gate: str) -> str:
    """Run until the file `gate` exists, whatever the worker wishes."""
    note(log, job, "started")
    wait_for_file(gate)
    note(log, job, "finished", should_stop=job.should_stop)
    return "held"


@job_type("work.guarded", breaker="payments")
def guarded(job: JobContext, log: str, gate: str) -> None:
    """Depends on a service, which answers once the file `gate` exists."""
    note(log, job, "started")
    wait_for_file(gate)


@job_type("work.needs_service", breaker="payments")
def need_service(job: JobContext, log: str, up: str) -> None:
    """Fails unless the file `up` exists."""
    note(log, job)
    if not Path(up).exists():
        raise ConnectionError("no answer")


@job_type("work.obey")
def obey(job: JobContext, log: str, *, give_back: bool = False) -> str:
    """Run until told to stop; then finish in order, or give the job back."""
    note(log, job, "started")
    while not job.should_stop:
        time.sleep(0.01)
    note(log, job, "stopping", reason=job.stop_reason)
    if give_back:
        job.raise_if_stopped()
    return "finished in order"


@job_type("work.clean_up")
def clean_up(job: JobContext, log: str, gate: str) -> str:
    """Run until told to stop; then clean up, which takes until the file `gate` exists."""
    note(log, job, "started")
    while not job.should_stop:
        job.progress(10)
        time.sleep(0.01)
    note(log, job, "asked", reason=job.stop_reason)
    wait_for_file(gate)
    job.progress(90)
    note(log, job, "cleaned")
    return "cleaned up"


@job_type("work.async_clean_up")
async def async_clean_up(job: JobContext, log: str, gate: str) -> str:
    note(log, job, "started")
    while not job.should_stop:
        await asyncio.sleep(0.01)
    note(log, job, "asked", reason=job.stop_reason)
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
    note(log, job, "cleaned")
    return "cleaned up"


@job_type("work.isolated_clean_up", isolate=True)
def isolated_clean_up(job: JobContext, log: str, gate: str) -> str:
    return clean_up(job, log, gate)


@job_type("work.deaf")
def deaf(job: JobContext, log: str) -> None:
    """Never asks whether it should stop, and never ends by itself."""
    note(log, job, "started")
    try:
        while True:
            time.sleep(0.01)
    except BaseException as error:
        note(log, job, "interrupted", by=type(error).__name__)
        raise


@job_type("work.async_deaf")
async def async_deaf(job: JobContext, log: str) -> None:
    note(log, job, "started")
    try:
        await asyncio.sleep(600)
    except BaseException as error:
        note(log, job, "interrupted", by=type(error).__name__)
        raise


@job_type("work.isolated_deaf", isolate=True)
def isolated_deaf(job: JobContext, log: str) -> None:
    deaf(job, log)


@job_type("work.fail")
def fail(job: JobContext, log: str) -> None:
    note(log, job)
    raise RuntimeError(f"attempt {job.attempt} fails")


@job_type("work.kill_worker")
def kill_worker(job: JobContext, log: str) -> None:
    """Take the whole worker down, as the kernel's out-of-memory killer would."""
    note(log, job)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@job_type("work.too_slow", timeout=timedelta(seconds=0.3))
def too_slow(job: JobContext, log: str, *, in_c: bool = False) -> None:
    """Never ends by itself: in Python code, or in C code that nothing interrupts."""
    note(log, job)
    while True:
        time.sleep(600 if in_c else 0.01)


@job_type("work.limited", concurrency=3, max_attempts=10)
def limited(job: JobContext, log: str, folder: str, *, seconds: float = 0.02) -> None:
    """Write down how many run at this moment. The kernel frees the lock of a run whose worker was killed."""
    mine = Path(folder) / f"{job.id}-{job.attempt}"
    with mine.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        note(log, job, running=sum(_is_locked(path) for path in Path(folder).iterdir()))
        time.sleep(seconds)


def _is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@job_type("work.progress")
def progress(job: JobContext, log: str, gate: str, *, by: float = 1) -> str:
    """Report progress until the file `gate` exists, so many percent every hundredth of a second."""
    note(log, job, "started")
    percent = 0.0
    try:
        while not Path(gate).exists():
            percent = min(99.0, percent + by)
            job.progress(percent, step=f"step {percent:.0f}")
            time.sleep(0.01)
    except JobStopped:
        note_stop(log, job)
        raise
    return "progressed"


@job_type("work.use_database")
def use_database(job: JobContext, log: str) -> None:
    """Write down which connection this job got."""
    note(log, job, connection=connection_mark())


@job_type("work.async")
async def run_async(job: JobContext, log: str) -> str:
    """Use the ORM from a coroutine."""
    from asgiref.sync import sync_to_async

    await asyncio.sleep(0)
    found = await Job.objects.filter(pk=job.id).acount()
    note(log, job, connection=await sync_to_async(connection_mark)())
    return f"found {found}"


@job_type("work.async_too_slow", timeout=timedelta(seconds=0.3), max_attempts=1)
async def run_async_for_ever(job: JobContext, log: str) -> None:
    note(log, job, "started")
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        note(log, job, "stopped")
        raise


def connection_mark() -> str:
    """What tells one database connection from the next."""
    connection.ensure_connection()
    raw: Any = connection.connection
    if connection.vendor == "postgresql":
        return str(raw.info.backend_pid)
    # SQLite does not number its connections: a temporary table shows whether this one was used before.
    with connection.cursor() as cursor:
        used_before = bool(cursor.execute("SELECT 1 FROM sqlite_temp_master WHERE name = 'mark'").fetchone())
        cursor.execute("CREATE TEMP TABLE IF NOT EXISTS mark (x)")
    return "used before" if used_before else ""


# -- hostile handlers, and the innocent beside them ------------------------------------------------------------------


@job_type("work.innocent")
def innocent(job: JobContext, log: str, gate: str) -> str:
    """Work with the database until the file `gate` exists, and notice whatever is wrong with it."""
    note(log, job, "started")
    connection.ensure_connection()
    mine = connection.connection
    while not Path(gate).exists():
        with transaction.atomic():
            assert Job.objects.get(pk=job.id).submitter != "vandal"
        assert connection.connection is mine, "somebody replaced the connection"
        assert connection.get_autocommit(), "somebody left a transaction open"
        time.sleep(0.02)
    return "unharmed"


@job_type("work.hostile", max_attempts=1)
def be_hostile(job: JobContext, how: str) -> Any:
    return hostile.IN_WORKER[how](job)


@job_type("work.isolated_hostile", max_attempts=1, isolate=True, memory_limit=2 << 30)
def be_hostile_in_isolation(job: JobContext, how: str) -> Any:
    return hostile.IN_CHILD[how](job)


@job_type("work.isolated", isolate=True)
def isolated(job: JobContext, log: str, gate: str) -> dict[str, Any]:
    """Progress and the result come through the pipe, children through the database."""
    note(log, job, "started")
    job.progress(40, step="half way")
    wait_for_file(gate)
    child = job.add("work.record", {"log": log}, key="child")
    return {"child": child.id, "pid": os.getpid()}


@job_type("work.isolated_talk", isolate=True)
def isolated_talk(job: JobContext) -> None:
    logging.getLogger("tests").warning("hello from %s", job.id)


@job_type("work.isolated_obey", isolate=True)
def isolated_obey(job: JobContext, log: str, *, give_back: bool = False) -> str:
    return obey(job, log, give_back=give_back)


@job_type("work.isolated_block", isolate=True)
def isolated_block(job: JobContext, log: str) -> None:
    """Cannot be stopped but by SIGKILL, and has started a process of its own."""
    hostile.start_grandchild(f"{log}.grandchild")
    note(log, job, "started")
    hostile.block_every_signal_and_sleep()


@job_type("work.isolated_too_slow", isolate=True, max_attempts=10, timeout=timedelta(seconds=4))
def isolated_too_slow(job: JobContext, log: str) -> None:
    """On a busy machine an attempt may be over before its process has started; one of ten is not."""
    isolated_block(job, log)
