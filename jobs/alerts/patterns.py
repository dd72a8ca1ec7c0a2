"""Failures that belong together: the same error, of the same type of job or about the same thing."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs import conf, database
from jobs.alerts.subjects import subject_of
from jobs.models import FailurePattern, Job

_MOST = 500
"""Jobs that are looked at when many fail at once."""
_VARYING = re.compile(
    r"\b[0-9A-HJKMNP-TV-Z]{26}\b|\b0x[0-9a-fA-F]+\b|\b[0-9a-fA-F-]{32,36}\b|\"[^\"]*\"|'[^']*'|\d+"
)
_COMPARED = 300


@dataclass(frozen=True, slots=True)
class Trait:
    """What failures may have in common."""

    subject: str
    error: str

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.subject}\0{general_form(self.error)}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Sighting:
    trait: Trait
    count: int
    """In this window."""
    is_due: bool
    """People should hear of it, and have not yet."""
    is_known: bool
    """They have."""


def general_form(error: str) -> str:
    """The error without what differs from case to case: numbers, identifiers, quoted names."""
    return _VARYING.sub("#", error[: 4 * _COMPARED])[:_COMPARED]


def traits_of(job: Job) -> list[Trait]:
    """The most specific first."""
    about = subject_of(job)
    own = [Trait(about, job.last_error)] if about else []
    return [*own, Trait(f"type {job.type}", job.last_error)]


def look_up(job_ids: Sequence[str]) -> list[Job]:
    return list(Job.objects.filter(pk__in=job_ids[:_MOST]).order_by("pk"))


def note(traits: Iterable[Trait]) -> dict[str, Sighting]:
    """Count failures with these traits; by key, how each of them stands now."""
    traits = list(traits)
    counts = Counter(trait.key for trait in traits)
    by_key = {trait.key: trait for trait in traits}

    def write() -> dict[str, Sighting]:
        with database.atomic():
            now = database.read_clock()
            FailurePattern.objects.bulk_create(
                [FailurePattern(key=key, started_at=now, last_at=now) for key in sorted(counts)],
                ignore_conflicts=True,
            )
            rows = FailurePattern.objects.select_for_update().filter(pk__in=list(counts)).order_by("pk")
            return {row.key: _seen_again(row, by_key[row.key], counts[row.key], now) for row in rows}

    return database.when_unlocked(write)


def _seen_again(row: FailurePattern, trait: Trait, more: int, now: datetime) -> Sighting:
    settings = conf.current()
    if is_over(row.started_at, now, settings.alert_pattern_window):
        row.count, row.started_at, row.alerted_at = 0, now, None
    row.count, row.last_at = row.count + more, now
    row.save()
    return Sighting(
        trait,
        row.count,
        is_due=row.count >= settings.alert_pattern_jobs and row.alerted_at is None,
        is_known=row.alerted_at is not None,
    )


def is_over(started_at: datetime, now: datetime, window: timedelta) -> bool:
    """A clock may be set back."""
    return not timedelta(0) <= now - started_at < window


def mark_alerted(keys: Iterable[str]) -> None:
    FailurePattern.objects.filter(pk__in=list(keys)).update(alerted_at=database.read_clock())


def forget_old() -> int:
    """In the sweep."""
    if not database.has_table(FailurePattern):
        return 0
    old = FailurePattern.objects.filter(last_at__lt=database.now_minus(conf.current().alert_pattern_window))
    return int(old.delete()[0])
