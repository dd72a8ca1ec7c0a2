"""Log lines that say which job and which worker they are about, as text or as JSON."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

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


def current_fields() -> dict[str, str]:
    """What lines carry here, for a process that goes on with the job."""
    return dict(_context.get({}))


class JobLogFilter(logging.Filter):
    """Put it on a logging handler: every record gets job_id, job_type, correlation_id, worker and a short `job_tag`."""

    def filter(self, record: logging.LogRecord) -> bool:
        known = _context.get({})
        for name in FIELDS:
            setattr(record, name, known.get(name, ""))
        tag = " ".join(f"{name}={known[name]}" for name in FIELDS if known.get(name))
        record.job_tag = f" [{tag}]" if tag else ""
        return True


class JSONFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the fields of the job, and what `extra=` brought along.

    `{"()": "jobs.logs.JSONFormatter"}` among LOGGING["formatters"]; it needs no filter beside it.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        known = _context.get({})
        line |= {name: known[name] for name in FIELDS if known.get(name)}
        line |= {
            name: value for name, value in vars(record).items() if name not in _STANDARD and name not in line
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, ensure_ascii=True, default=_shown)


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "job_tag", *FIELDS}


def _shown(value: object) -> str:
    """Whatever somebody logs, the line is written."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__qualname__}>"
