"""The environment variables of VLog, and what took the place of each. Setting one of the old names is pointed out.

A system check says so where checks run (`runworker`, `runserver`, `check`); servers that run none (WSGI, ASGI) log it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.checks import CheckMessage, Warning, register

from jobs.checks import TAG

log = logging.getLogger("project")

PREFIX = "VLOG_"


@dataclass(frozen=True)
class Successor:
    name: str
    unit: str = ""
    """What VLog's numbers counted, as our durations write it."""

    def given(self, value: str) -> str:
        """How to write the old value under the new name. Only numbers are repeated: others may be secrets."""
        number = value.strip()
        if self.unit and number.isascii() and number.isdecimal():
            return f"Set {self.name}={number}{self.unit} instead"
        return f"Set {self.name} instead"


SUCCESSORS = {
    "VLOG_WORKER_CLAIM_DURATION_MINUTES": Successor("JOBS_CLAIM_DURATION", "m"),
    "VLOG_WORKER_HEARTBEAT_INTERVAL": Successor("JOBS_HEARTBEAT_INTERVAL", "s"),
    "VLOG_WORKER_OFFLINE_THRESHOLD_MINUTES": Successor("JOBS_OFFLINE_THRESHOLD", "m"),
    "VLOG_STALE_JOB_CHECK_INTERVAL": Successor("JOBS_SWEEP_INTERVAL", "s"),
    "VLOG_JOB_STALE_TIMEOUT": Successor("JOBS_STALE_TIMEOUT", "s"),
    "VLOG_MAX_RETRY_ATTEMPTS": Successor("JOBS_MAX_ATTEMPTS"),
    "VLOG_KEEP_COMPLETED_QUALITIES": Successor("VIDEOS_KEEP_COMPLETED_QUALITIES"),
    "VLOG_CLEANUP_PARTIAL_ON_FAILURE": Successor("VIDEOS_CLEANUP_PARTIAL_ON_FAILURE"),
    "VLOG_REDIS_URL": Successor("REDIS_URL"),
    "VLOG_REDIS_POOL_SIZE": Successor("REDIS_POOL_SIZE"),
    "VLOG_JOB_QUEUE_MODE": Successor("JOBS_QUEUE_MODE"),
    "VLOG_ALERT_WEBHOOK_URL": Successor("JOBS_ALERT_WEBHOOK_URL"),
    "VLOG_ALERT_RATE_LIMIT_SECONDS": Successor("JOBS_ALERT_RATE_LIMIT", "s"),
    "VLOG_ALERT_WEBHOOK_TIMEOUT": Successor("JOBS_ALERT_TIMEOUT", "s"),
    "VLOG_WORKER_ADMIN_SECRET": Successor("JOBS_WORKER_ADMIN_SECRET"),
}
"""Every one that the documents of VLog name."""

_told = False


def find_old_names(environment: Mapping[str, str]) -> list[CheckMessage]:
    return [
        Warning(f"{name} is set, but nothing reads it.", hint=_hint(name, value), id="project.W001")
        for name, value in sorted(environment.items())
        if name.startswith(PREFIX)
    ]


def _hint(name: str, value: str) -> str:
    successor = SUCCESSORS.get(name)
    advice = successor.given(value) if successor else "It has no counterpart: unset it"
    return f"{advice}. docs/from-vlog.md lists all of them."


@register(TAG)
def check_old_names(**kwargs: Any) -> list[CheckMessage]:
    global _told
    _told = True
    return find_old_names(os.environ)


def log_old_names() -> None:
    """For a server that runs no system checks; says nothing where one has."""
    if not _told:
        for message in find_old_names(os.environ):
            log.warning("%s %s", message.msg, message.hint, extra={"code": message.id})
