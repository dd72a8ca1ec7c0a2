"""Every setting of the queue: its name, its default, what it accepts. Read here and nowhere else, live.

A host site writes `JOBS = {"CLAIM_DURATION": timedelta(minutes=10), …}`; durations may also be numbers of seconds
or texts such as "90", "30s", "5m", "2h", "30d".
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

_UNITS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def parse_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        result = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        result = timedelta(seconds=value)
    elif isinstance(value, str) and (match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip())):
        number, unit = match.groups()
        if unit not in _UNITS:
            raise ValueError(f"{value!r} has an unknown unit; use ms, s, m, h or d")
        result = timedelta(seconds=float(number) * _UNITS[unit])
    else:
        raise ValueError(f"{value!r} is not a duration such as 90, '30s', '5m', '2h' or '30d'")
    if result <= timedelta(0):
        raise ValueError(f"{value!r} must be longer than zero")
    return result


def _whole(minimum: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", str(value).strip().replace("_", "")):
            raise ValueError(f"{value!r} is not a whole number")
        number = int(value)
        if number < minimum:
            raise ValueError(f"{number} is below the minimum of {minimum}")
        return number

    return parse


def _parse_bool(value: Any) -> bool:
    words = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    if str(value).strip().lower() not in words:
        raise ValueError(f"{value!r} is neither true nor false")
    return words[str(value).strip().lower()]


def _duration(default: str, help: str) -> timedelta:
    return field(default=parse_duration(default), metadata={"parse": parse_duration, "help": help})


def _number(default: int, help: str, minimum: int = 1) -> int:
    return field(default=default, metadata={"parse": _whole(minimum), "help": help})


def _flag(default: bool, help: str) -> bool:
    return field(default=default, metadata={"parse": _parse_bool, "help": help})


@dataclass(frozen=True)
class JobsSettings:
    claim_duration: timedelta = _duration("30m", "how long a lease lasts unless it is renewed")
    heartbeat_interval: timedelta = _duration("30s", "how often a worker reports and renews its leases")
    offline_threshold: timedelta = _duration("5m", "silence after which a worker counts as offline")
    tick_interval: timedelta = _duration(
        "1s", "how often a worker looks for due jobs and for proof of a death"
    )
    sweep_interval: timedelta = _duration("60s", "how often the whole sweep runs")
    stale_timeout: timedelta = _duration(
        "30m", "a running job without progress for this long loses its lease"
    )
    recovery_grace: timedelta = _duration("2m", "after the database was down, how long expiry does not count")
    session_lock_grace: timedelta = _duration(
        "5s", "how long a worker's PostgreSQL lock may be free (reconnect)"
    )
    session_features: bool = _flag(
        True, "LISTEN and session locks on PostgreSQL; false behind a transaction pooler such as PgBouncer"
    )
    frozen_transaction_timeout: timedelta = _duration(
        "30s", "how long a frozen worker may hold the locks of its open transaction (PostgreSQL)"
    )
    drain_timeout: timedelta = _duration("30s", "how long running jobs may finish after SIGTERM")
    max_attempts: int = _number(3, "how often a job runs at most, unless its type says otherwise")
    backoff_base: timedelta = _duration("10s", "the wait after the first failed attempt")
    backoff_cap: timedelta = _duration("1h", "the longest wait between two attempts")
    priority_ageing: timedelta = _duration(
        "5m", "a job that waited this long shares in claims whatever its priority"
    )
    gpu_patience: timedelta = _duration(
        "60s", "how long a job that prefers a GPU is left to idle GPU workers"
    )
    max_depth: int = _number(1_000_000, "active jobs above which enqueue raises QueueFull")
    warn_depth: int = _number(10_000, "active jobs above which enqueue logs a warning")
    submitter_rate: int = _number(0, "jobs per minute and submitter; 0 means no limit", minimum=0)
    payload_max_bytes: int = _number(256 * 1024, "the largest payload or result, as JSON")
    error_max_chars: int = _number(4_000, "how much of an error is kept in last_error")
    retention: timedelta = _duration("30d", "how long completed and cancelled jobs are kept")


_cached: tuple[dict[str, Any], JobsSettings] | None = None


def current() -> JobsSettings:
    """The settings as they are now; raises ImproperlyConfigured with every problem named."""
    global _cached
    raw = getattr(django_settings, "JOBS", {})
    if _cached is None or _cached[0] != raw:
        problems = find_problems(raw)
        if problems:
            raise ImproperlyConfigured(" ".join(problems))
        _cached = (dict(raw), JobsSettings(**_parsed(raw)))
    return _cached[1]


def find_problems(raw: Any) -> list[str]:
    """What is wrong with a JOBS dictionary, one sentence each; empty when it is fine."""
    if not isinstance(raw, dict):
        return ["JOBS must be a dictionary."]
    known = {f.name.upper(): f for f in fields(JobsSettings)}
    problems = []
    for key, value in raw.items():
        if key not in known:
            guess = difflib.get_close_matches(str(key), known, n=1)
            hint = f" Did you mean {guess[0]}?" if guess else f" Known: {', '.join(sorted(known))}."
            problems.append(f"JOBS[{key!r}] is not a setting.{hint}")
            continue
        try:
            known[key].metadata["parse"](value)
        except ValueError as error:
            problems.append(f"JOBS[{key!r}]: {error}.")
    if not problems:
        parsed = JobsSettings(**_parsed(raw))
        if parsed.heartbeat_interval * 2 > parsed.claim_duration:
            problems.append(
                "JOBS['HEARTBEAT_INTERVAL'] must be at most half of CLAIM_DURATION, or leases run out."
            )
        if parsed.heartbeat_interval >= parsed.offline_threshold:
            problems.append("JOBS['HEARTBEAT_INTERVAL'] must be below OFFLINE_THRESHOLD, or workers flap.")
        if parsed.backoff_base > parsed.backoff_cap:
            problems.append("JOBS['BACKOFF_BASE'] must not exceed BACKOFF_CAP.")
    return problems


def _parsed(raw: dict[str, Any]) -> dict[str, Any]:
    parsers = {f.name: f.metadata["parse"] for f in fields(JobsSettings)}
    return {key.lower(): parsers[key.lower()](value) for key, value in raw.items()}
