"""Log lines that say which job and which worker they are about."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_context: ContextVar[dict[str, str]] = ContextVar("jobs_log_context")

FIELDS = ("job_id", "job_type", "correlation_id", "worker")


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    token = _context.set({**_context.get({}), **fields})
    try:
        yield
    finally:
        _context.reset(token)


class JobLogFilter(logging.Filter):
    """Put it on a logging handler: every record gets job_id, job_type, correlation_id, worker and a short `job_tag`."""

    def filter(self, record: logging.LogRecord) -> bool:
        known = _context.get({})
        for name in FIELDS:
            setattr(record, name, known.get(name, ""))
        tag = " ".join(f"{name}={known[name]}" for name in FIELDS if known.get(name))
        record.job_tag = f" [{tag}]" if tag else ""
        return True
