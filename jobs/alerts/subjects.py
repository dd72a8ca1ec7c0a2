"""What a job is about, in the words of the app that it belongs to: "video 7". The queue itself knows no videos."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from jobs.models import Job

log = logging.getLogger("jobs.alerts")

Namer = Callable[[Job], str | None]
N = TypeVar("N", bound=Namer)

_namers: list[Namer] = []


def names_subject(namer: N) -> N:
    """Register the decorated function: it says what a job is about, or None. Failures about the same thing with the
    same error are one alert. Put it where it is imported at start-up."""
    _namers.append(namer)
    return namer


def subject_of(job: Job) -> str | None:
    for namer in _namers:
        try:
            if subject := namer(job):
                return subject
        except Exception:  # the alert goes out without it
            log.exception("%s.%s cannot say what job %s is about", namer.__module__, namer.__name__, job.pk)
    return None
