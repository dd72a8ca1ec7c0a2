"""Tasks of the tests, as a site would write them; importable by worker processes."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import django
from django.dispatch import receiver

from jobs import PermanentFailure, RetryLater
from jobs.models import Job
from jobs.tasks_backend.framework import task, task_finished, task_started
from tests.jobapp.notes import note, wait_for_file


class Spoilt(Exception):
    """An exception that is not Python's own."""


@task
def add(*terms: int, **more: int) -> int:
    return sum(terms) + sum(more.values())


@task()
async def find_oneself() -> int:
    await asyncio.sleep(0)
    return await Job.objects.filter(status="processing").acount()


@task
def give(what: Any) -> Any:
    """What JSON cannot carry is named."""
    if not isinstance(what, str):
        return what
    return {"object": object(), "nan": float("nan"), "bytes": b"text", "tuple": (1, (2, 3))}[what]


@task
def fail(text: str = "as it was asked to") -> None:
    raise ValueError(text)


@task
async def fail_later() -> None:
    await asyncio.sleep(0)
    raise Spoilt("after a while")


@task
def leave() -> None:
    sys.exit("gone")


@task
def give_up() -> None:
    raise PermanentFailure("no use")


@task
def put_off() -> None:
    raise RetryLater(0, "not now")


# What a backend adds, @task of Django 6.0 does not take yet; .using() does.
OWN_TERMS: dict[str, Any] = {} if django.VERSION[:2] == (6, 0) else {"max_attempts": 2}


@task(**OWN_TERMS)
def fail_twice() -> None:
    raise Spoilt("again")


if not OWN_TERMS:
    fail_twice = fail_twice.using(max_attempts=2)


@task(takes_context=True)
def look(context: Any, *, fail_before: int = 1) -> dict[str, Any]:
    """What a task sees of itself."""
    result = context.task_result
    if context.attempt < fail_before:
        raise Spoilt(f"attempt {context.attempt}")
    context.job.progress(50, step="looking")
    return {
        "id": result.id,
        "status": result.status,
        "attempt": context.attempt,
        "errors": len(result.errors),
        "started": result.started_at is not None and result.finished_at is None,
        "job": context.job.id,
    }


@task(queue_name="mail", priority=10)
def send_mail(log: str) -> None:
    with Path(log).open("a") as file:
        file.write("mail\n")


@task(takes_context=True)
def hold(context: Any, log: str, gate: str) -> str:
    note(log, context.job, "started")
    wait_for_file(gate)
    return "held"


@task(takes_context=True)
async def wait_for_ever(context: Any, log: str) -> None:
    note(log, context.job, "started")
    try:
        await asyncio.sleep(600)
    finally:
        note(log, context.job, "stopped")


@task(takes_context=True)
def clean_up(context: Any, log: str) -> str:
    note(log, context.job, "started")
    while not context.job.should_stop:
        time.sleep(0.01)
    note(log, context.job, "cleaned", reason=context.job.stop_reason)
    return "cleaned up"


@task
def kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def not_a_task() -> None:
    raise AssertionError("a payload has called what is no task")


@receiver([task_started, task_finished])
def write_down(sender: type, task_result: Any, signal: Any, **more: Any) -> None:
    """In processes of which a test wants to know."""
    if "TASK_SIGNALS_LOG" in os.environ:
        name = {id(task_started): "started", id(task_finished): "finished"}[id(signal)]
        with Path(os.environ["TASK_SIGNALS_LOG"]).open("a") as file:
            file.write(f"{name} {sender.__name__} {task_result.task.name} {task_result.status}\n")
