"""SprocketBackend: the contract of Django's task backends, kept by the queue.

Tasks are declared while Django still loads the apps, so nothing here imports the models before it needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ParamSpec, TypeVar

from django.apps import apps
from django.core import checks
from django.utils import timezone

from jobs.priorities import labels
from jobs.tasks_backend import endings, queues
from jobs.tasks_backend.declaring import SprocketTask
from jobs.tasks_backend.framework import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)

P = ParamSpec("P")
R = TypeVar("R")

MAX_ATTEMPTS = "MAX_ATTEMPTS"


class SprocketBackend(BaseTaskBackend):
    task_class = SprocketTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    registers_job_types = True
    """For jobs.apps, which must not import this module where nobody uses it."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.max_attempts = self.options.get(MAX_ATTEMPTS, 1)
        self._settings = set(params)
        queues.register(self.queues)
        endings.follow()

    def validate_task(self, task: Task[..., Any]) -> None:
        super().validate_task(task)
        attempts = getattr(task, "max_attempts", None)
        if attempts is not None and not is_count(attempts):
            raise InvalidTask(f"max_attempts must be a whole number of at least 1, not {attempts!r}.")

    def enqueue(self, task: Task[P, R], args: Any, kwargs: Any) -> TaskResult[P, R]:
        """Add the task, in the caller's transaction."""
        from jobs import lifecycle
        from jobs.tasks_backend.orders import Order

        self.validate_task(task)
        result = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        order = Order(
            path=task.module_path,
            alias=self.alias,
            queue=task.queue_name,
            priority=int(task.priority),
            args=result.args,
            kwargs=result.kwargs,
            run_after=task.run_after,
        )
        run_at = task.run_after
        job = lifecycle.enqueue(
            queues.type_of(task.queue_name),
            order.as_payload(),
            priority=as_job_priority(order.priority),
            run_at=timezone.make_aware(run_at) if run_at and timezone.is_naive(run_at) else run_at,
            max_attempts=getattr(task, "max_attempts", None) or self.max_attempts,
        )
        # What the frameworks' own backends do with a result, which is frozen for everybody else.
        object.__setattr__(result, "id", job.pk)
        object.__setattr__(result, "enqueued_at", job.created_at)
        task_enqueued.send_robust(sender=type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        from jobs.payloads import storable
        from jobs.tasks_backend.orders import Order
        from jobs.tasks_backend.results import as_result, find_job

        job = find_job(storable(result_id))
        if job is None or not queues.is_task(job.type) or job.payload.get("backend") != self.alias:
            raise TaskResultDoesNotExist(result_id)
        return as_result(job, Order.read(job.payload))

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        return [
            checks.CheckMessage(level, f"TASKS[{self.alias!r}]{problem}", id=f"jobs.{id}")
            for level, id, problem in self._problems()
        ]

    def _problems(self) -> Iterator[tuple[int, str, str]]:
        if not apps.is_installed("jobs"):
            yield checks.ERROR, "E030", ' needs "jobs" in INSTALLED_APPS.'
        for option in sorted(set(self.options) - {MAX_ATTEMPTS}):
            yield checks.ERROR, "E031", f" has no option {option!r}, only {MAX_ATTEMPTS}."
        if not is_count(self.max_attempts):
            told = f"must be a whole number of at least 1, not {self.max_attempts!r}"
            yield checks.ERROR, "E032", f": {MAX_ATTEMPTS} {told}."
        for queue in sorted(self.queues):
            if problem := queues.name_problem(f"{queues.TYPE}.{queue}"):
                yield checks.ERROR, "E033", f": the queue name {queue!r} {problem}."
        if "ENQUEUE_ON_COMMIT" in self._settings:
            told = "has no effect; a task joins the caller's transaction, and exists once that commits"
            yield checks.WARNING, "W030", f": ENQUEUE_ON_COMMIT {told}."


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def as_job_priority(priority: int) -> int:
    """-100 … 100 with the most urgent last, as the queue counts: lower first. A task's 0 is a job's normal."""
    return labels()["normal"] - priority
