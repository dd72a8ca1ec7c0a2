"""The payload of a job that is a task: which function, with which arguments. Read back, it is input as any other."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from jobs.tasks_backend.framework import InvalidTask, Task, task_backends


@dataclass(frozen=True, slots=True)
class Order:
    path: str
    alias: str
    queue: str
    priority: int
    args: list[Any]
    kwargs: dict[str, Any]
    run_after: datetime | None = None

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Order:
        """The order that a payload holds, or InvalidTask."""
        path, alias, queue = (payload.get(name) for name in ("task", "backend", "queue"))
        if not (isinstance(path, str) and isinstance(alias, str) and isinstance(queue, str)):
            raise InvalidTask("The payload's task, backend and queue must be texts.")
        priority, args, kwargs = (payload.get(name) for name in ("priority", "args", "kwargs"))
        if not (isinstance(priority, int) and isinstance(args, list) and isinstance(kwargs, dict)):
            raise InvalidTask(
                "The payload's priority must be a number, its args a list, its kwargs an object."
            )
        moment = payload.get("run_after")
        try:
            run_after = None if moment is None else datetime.fromisoformat(moment)
        except (TypeError, ValueError):
            raise InvalidTask("The payload's run_after must be a time as ISO 8601 writes it.") from None
        return cls(path, alias, queue, priority, args, kwargs, run_after)

    def as_payload(self) -> dict[str, Any]:
        payload = {
            "task": self.path,
            "backend": self.alias,
            "queue": self.queue,
            "priority": self.priority,
            "args": self.args,
            "kwargs": self.kwargs,
        }
        return payload | ({"run_after": self.run_after.isoformat()} if self.run_after else {})

    def find_task(self) -> Task[..., Any]:
        """The task as it was enqueued, or InvalidTask."""
        from jobs.tasks_backend.backend import SprocketBackend

        try:
            backend = task_backends[self.alias]
        except ImproperlyConfigured as error:
            raise InvalidTask(f"TASKS has no backend {self.alias!r}: {error}") from None
        if not isinstance(backend, SprocketBackend):
            raise InvalidTask(f"TASKS[{self.alias!r}] is not a backend of this queue.")
        return replace(
            _find(self.path),
            backend=self.alias,
            queue_name=self.queue,
            priority=self.priority,
            run_after=self.run_after,
        )


def _find(path: str) -> Task[..., Any]:
    module = path.rpartition(".")[0]
    if not _is_of_this_site(module):
        raise InvalidTask(f"{path!r} is no task: {module!r} is not a module of an installed app.")
    try:
        found = import_string(path)
    except ImportError as error:
        raise InvalidTask(f"{path!r} is no task that this process knows: {error}") from error
    if not isinstance(found, Task):
        raise InvalidTask(f"{path!r} is no task: decorate it with @task.")
    return found


def _is_of_this_site(module: str) -> bool:
    """To import is to run: whoever may write a payload must not choose among all modules of the machine."""
    if not all(part.isidentifier() for part in module.split(".")):
        return False
    homes = [app.name for app in apps.get_app_configs()]
    homes += [settings.ROOT_URLCONF, settings.SETTINGS_MODULE or ""]
    return module in sys.modules or module.partition(".")[0] in {home.partition(".")[0] for home in homes}
