"""A durable job queue that lives in the site's own database.

The public face is loaded on first use, so that `from jobs import …` works from any module at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.breakers.declarations import declare_breaker
    from jobs.breakers.guard import breaker
    from jobs.exceptions import (
        BreakerOpen,
        EnqueueRefused,
        InvalidPayload,
        JobCancelled,
        JobStopped,
        JobTimeout,
        LeaseLost,
        PermanentFailure,
        QueueFull,
        RateLimited,
        RetryLater,
        UnknownJobType,
    )
    from jobs.lifecycle import cancel, enqueue, enqueue_many, retry
    from jobs.overview import snapshot
    from jobs.priorities import HIGH, LOW, NORMAL
    from jobs.registry import job_type
    from jobs.timetable.declarations import periodic
    from jobs.worker.context import JobContext
    from jobs.workflows import Flow, optional, workflow

_HOME = {
    "BreakerOpen": "exceptions",
    "EnqueueRefused": "exceptions",
    "InvalidPayload": "exceptions",
    "JobCancelled": "exceptions",
    "JobStopped": "exceptions",
    "JobTimeout": "exceptions",
    "LeaseLost": "exceptions",
    "PermanentFailure": "exceptions",
    "QueueFull": "exceptions",
    "RateLimited": "exceptions",
    "RetryLater": "exceptions",
    "UnknownJobType": "exceptions",
    "breaker": "breakers.guard",
    "declare_breaker": "breakers.declarations",
    "cancel": "lifecycle",
    "enqueue": "lifecycle",
    "enqueue_many": "lifecycle",
    "retry": "lifecycle",
    "HIGH": "priorities",
    "LOW": "priorities",
    "NORMAL": "priorities",
    "job_type": "registry",
    "periodic": "timetable.declarations",
    "snapshot": "overview",
    "JobContext": "worker.context",
    "Flow": "workflows",
    "optional": "workflows",
    "workflow": "workflows",
}

__all__ = [
    "HIGH",
    "LOW",
    "NORMAL",
    "BreakerOpen",
    "EnqueueRefused",
    "Flow",
    "InvalidPayload",
    "JobCancelled",
    "JobContext",
    "JobStopped",
    "JobTimeout",
    "LeaseLost",
    "PermanentFailure",
    "QueueFull",
    "RateLimited",
    "RetryLater",
    "UnknownJobType",
    "breaker",
    "cancel",
    "declare_breaker",
    "enqueue",
    "enqueue_many",
    "job_type",
    "optional",
    "periodic",
    "retry",
    "snapshot",
    "workflow",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'jobs' has no attribute {name!r}")
    return getattr(import_module(f"jobs.{_HOME[name]}"), name)
