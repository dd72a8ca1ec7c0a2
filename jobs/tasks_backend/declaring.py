"""What the queue adds to a task: `@task(max_attempts=…)`, and the running job in its context."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jobs.tasks_backend.framework import Task, TaskContext

if TYPE_CHECKING:
    from jobs.worker.context import JobContext


@dataclass(frozen=True, slots=True, kw_only=True)
class SprocketTask(Task):  # type: ignore[type-arg]
    max_attempts: int | None = field(default=None, compare=False)
    """How often the task runs at most; None: as its backend says."""

    def using(self, *, max_attempts: int | None = None, **changes: Any) -> SprocketTask:
        changed = replace(self, **{name: value for name, value in changes.items() if value is not None})
        return changed if max_attempts is None else replace(changed, max_attempts=max_attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SprocketTaskContext(TaskContext):  # type: ignore[type-arg, misc]
    job: JobContext
    """The running job: progress, whether it should stop, children."""
