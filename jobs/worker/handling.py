"""Run one handler and say how it ended. Whatever it raises stays here."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync

from jobs import payloads, registry
from jobs.breakers.guard import running_job
from jobs.exceptions import (
    InvalidPayload,
    JobStopped,
    LeaseLost,
    PermanentFailure,
    RetryLater,
    UnknownJobType,
)
from jobs.lifecycle.leases import FailureReport, Lease
from jobs.registry import JobType
from jobs.remote_work import DoneAtSite
from jobs.worker.context import DRAINING, TIMEOUT, JobContext, stop_error


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. Neither failed nor released: completed with this result."""

    lease: Lease
    result: Any = None
    failure: FailureReport | None = None
    released: bool = False
    log_fields: Mapping[str, str] | None = None
    """Of a failure: what the line about it says of the job."""


class ReportedFailure(Exception):
    """Raised by a handler that has described its failure itself."""

    def __init__(self, report: FailureReport) -> None:
        super().__init__(report.message)
        self.report = report


def run_handler(context: JobContext) -> Outcome | None:
    """The outcome to report; None when there is nothing to report because the lease is gone."""
    lease = context.lease
    mark = running_job.set(lease.job_id)
    try:
        return Outcome(lease, result=_call(context))
    except JobStopped as stop:
        if context.stop_reason == DRAINING:
            return Outcome(lease, released=True)
        if context.stop_reason and context.stop_reason != TIMEOUT:
            return None
        return Outcome(lease, failure=FailureReport.of(stop))
    except LeaseLost as lost:
        # Its own lease: nothing to report. Another job's (a handler that calls the queue itself): an error as any.
        return None if lost.job_id == lease.job_id else Outcome(lease, failure=FailureReport.of(lost))
    except RetryLater as later:
        return Outcome(lease, failure=FailureReport.of(later, retry_in=later.delay, counted=later.counted))
    except (PermanentFailure, UnknownJobType) as final:
        return Outcome(lease, failure=FailureReport.of(final, permanent=True))
    except ReportedFailure as told:
        return Outcome(lease, failure=told.report)
    except BaseException as error:
        return Outcome(lease, failure=FailureReport.of(error))
    finally:
        running_job.reset(mark)


def _call(context: JobContext) -> Any:
    kind = registry.get(context.type)
    problem = kind.arguments_problem(context.payload)
    if problem:
        raise PermanentFailure(problem)
    if kind.artifact and _is_done(kind, context):
        return None
    if context.site is not None and isinstance(kind.remote, DoneAtSite):
        context.site.wait_for_its_part("at the site")
        return None
    result = kind.handler(context, **context.payload)
    if inspect.iscoroutine(result):
        result = run_coroutine(result, context)
    if result is not None:
        try:
            payloads.encode(result, what="result")
        except InvalidPayload as error:
            raise PermanentFailure(f"The work is done but its result cannot be stored. {error}") from None
    return result


def _is_done(kind: JobType, context: JobContext) -> bool:
    """An artifact is looked for where the database is: for a remote worker that is the server, with the order."""
    assert kind.artifact is not None
    return context.site.done if context.site is not None else bool(kind.artifact(context.payload))


def run_coroutine(coroutine: Coroutine[Any, Any, Any], context: JobContext) -> Any:
    """Run a coroutine of a handler. What it calls through sync_to_async, the ORM above all, runs in this thread, so it
    has this job's own connection; an interrupt cancels it where it awaits."""

    async def main() -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        context.when_stopped(lambda: loop.call_soon_threadsafe(task.cancel))
        return await coroutine

    try:
        return async_to_sync(main)()
    except asyncio.CancelledError:
        if not context.interrupted:
            raise  # by the handler itself
        raise stop_error(context.stop_reason)(context.stop_reason) from None
    finally:
        context.when_stopped(None)


def interrupt_thread(thread: int, reason: str) -> None:
    """Raise what this reason means in the thread of a handler, as soon as that runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(stop_error(reason)))
