"""Run one task in a worker: find the function, call it, tell the framework's signals, keep what it returned."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from typing import Any

from django.db import DatabaseError
from django.dispatch import Signal

from jobs import payloads
from jobs.exceptions import JobStopped, LeaseLost, PermanentFailure, RetryLater
from jobs.lifecycle.leases import FailureReport
from jobs.models import Job
from jobs.tasks_backend.declaring import SprocketTaskContext
from jobs.tasks_backend.framework import (
    InvalidTask,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from jobs.tasks_backend.orders import Order
from jobs.tasks_backend.results import as_result, find_job, name_of, path_of
from jobs.worker.context import JobContext
from jobs.worker.handling import ReportedFailure, run_coroutine

DATABASE_PAUSE = timedelta(seconds=5)


def run(job: JobContext) -> Any:
    result, clock = _begin(job)
    done = False
    try:
        value = _call(job, result)
        done = True
        value = normalize_json(value)
        payloads.encode(value, what="result")
    except LeaseLost:
        raise
    except (JobStopped, RetryLater) as wish:
        if isinstance(wish, RetryLater) and wish.counted and job.attempt >= job.max_attempts:
            _finish_badly(result, clock, FailureReport.of(wish))
        raise
    except BaseException as error:
        # Once the function has returned there is no use in running it again: its result would be no better.
        report = replace(
            FailureReport.of(error, permanent=done or isinstance(error, PermanentFailure)),
            type=name_of(type(error)),
        )
        if not job.must_stop and (report.permanent or job.attempt >= job.max_attempts):
            _finish_badly(result, clock, report)
        raise ReportedFailure(report) from error
    if not job.must_stop:
        _finish(result, clock, TaskResultStatus.SUCCESSFUL, _return_value=value)
    return value


class _Clock:
    """The database's time, without asking again: a task may leave its connection in any state."""

    def __init__(self, read_at: datetime) -> None:
        self._read_at, self._stopwatch = read_at, time.monotonic()

    def now(self) -> datetime:
        return self._read_at + timedelta(seconds=time.monotonic() - self._stopwatch)


def _begin(job: JobContext) -> tuple[TaskResult[..., Any], _Clock]:
    try:
        order = Order.read(job.payload)
        row: Any = find_job(job.id)
        if row is None:
            raise Job.DoesNotExist(f"Job {job.id} was deleted.")
        result, clock = as_result(row, order), _Clock(row.read_at)
    except InvalidTask as error:
        raise PermanentFailure(str(error)) from error
    except DatabaseError as error:
        # It has not started: no reason to use up what may be its only attempt.
        raise RetryLater(DATABASE_PAUSE, f"The database did not answer: {error}", counted=False) from error
    _send(task_started, result)
    return result, clock


def _call(job: JobContext, result: TaskResult[..., Any]) -> Any:
    task = result.task
    args: list[Any] = list(result.args)
    if task.takes_context:
        args.insert(0, SprocketTaskContext(task_result=result, job=job))
    if iscoroutinefunction(task.func):
        return run_coroutine(task.acall(*args, **result.kwargs), job)
    return task.call(*args, **result.kwargs)


def _finish_badly(result: TaskResult[..., Any], clock: _Clock, report: FailureReport) -> None:
    error = TaskError(exception_class_path=path_of(report.type), traceback=report.traceback)
    _finish(result, clock, TaskResultStatus.FAILED, errors=[*result.errors, error])


def _finish(result: TaskResult[..., Any], clock: _Clock, status: TaskResultStatus, **changes: Any) -> None:
    for name, value in {"status": status, "finished_at": clock.now(), **changes}.items():
        object.__setattr__(result, name, value)  # as the frameworks' own backends do it
    _send(task_finished, result)


def _send(signal: Signal, result: TaskResult[..., Any]) -> None:
    """A receiver that raises is logged and changes nothing about the task."""
    signal.send_robust(sender=type(result.task.get_backend()), task_result=result)
