"""Queues of tasks as job types, so that workers choose among them and people pause or limit them one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jobs import registry
from jobs.tasks_backend.framework import DEFAULT_TASK_QUEUE_NAME

if TYPE_CHECKING:
    from jobs.worker.context import JobContext

TYPE = "django.task"
"""The job type of tasks in the queue "default", and in queues that no backend lists (QUEUES = [] allows any)."""


def type_of(queue: str) -> str:
    own = f"{TYPE}.{queue}"
    return own if registry.find(own) else TYPE


def is_task(type_name: str) -> bool:
    return type_name == TYPE or type_name.startswith(f"{TYPE}.")


def register(queues: Iterable[str]) -> None:
    for name in [TYPE, *(f"{TYPE}.{queue}" for queue in queues if queue != DEFAULT_TASK_QUEUE_NAME)]:
        if not name_problem(name) and registry.find(name) is None:
            registry.job_type(name)(run_task)


def name_problem(type_name: str) -> str | None:
    """Why no worker could be told to handle a queue of this name, if so."""
    if len(type_name) > 100:
        return f"is longer than {100 - len(TYPE) - 1} characters"
    if not type_name.isprintable() or {",", " "} & set(type_name):
        return "contains a comma, a blank or something unprintable"
    return None


def run_task(
    job: JobContext,
    *,
    task: str,
    backend: str,
    queue: str,
    priority: int,
    args: list[Any],
    kwargs: dict[str, Any],
    run_after: str | None = None,
) -> Any:
    from jobs.tasks_backend.running import run  # a task may be declared before the models are loaded

    return run(job)
