"""Log lines that say which job and which worker they are about."""

from __future__ import annotations

import logging
from contextvars import ContextVar

_context: ContextVar[dict[str, str]] = ContextVar("jobs_log_context")

FIELDS = ("job_id", "job_type", "correlation_id", "worker")


class log_context:  # noqa: N801 (reads as a function)
    """`with log_context(job_id=…):` log lines inside carry these fields."""

    __slots__ = ("_fields", "_token")

    def __init__(self, **fields: str) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _context.set({**_context.get({}), **self._fields})

    def __exit__(self, *exc_info: object) -> None:
        _context.reset(self._token)


class JobLogFilter(logging.Filter):
    """Put it on a logging handler: every record gets job_id, job_type, correlation_id, worker and a short `job_tag`."""

    def filter(self, record: logging.LogRecord) -> bool:
        known = _context.get({})
        for name in FIELDS:
            setattr(record, name, known.get(name, ""))
        tag = " ".join(f"{name}={known[name]}" for name in FIELDS if known.get(name))
        record.job_tag = f" [{tag}]" if tag else ""
        return True
