"""The terms of a breaker: what the code declares, else what the settings say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs import conf
from jobs.breakers.policy import Terms

LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class _Declared:
    failures: int | None
    cooldown: timedelta | None
    probes: int | None
    probe_timeout: timedelta | None


_declared: dict[str, _Declared] = {}


def declare_breaker(
    name: str,
    *,
    failures: int | None = None,
    cooldown: timedelta | None = None,
    probes: int | None = None,
    probe_timeout: timedelta | None = None,
) -> None:
    """Give a breaker terms of its own, beside the job types that name it. What is left out is as in the settings."""
    check_name(name)
    numbers: dict[str, Any] = {"failures": failures, "probes": probes}
    for what, number in numbers.items():
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ValueError(f"breaker {name}: {what} must be a whole number of at least 1, not {number!r}.")
    moments: dict[str, Any] = {"cooldown": cooldown, "probe_timeout": probe_timeout}
    for what, duration in moments.items():
        if duration is not None and not (isinstance(duration, timedelta) and duration > timedelta(0)):
            raise ValueError(f"breaker {name}: {what} must be a timedelta longer than zero.")
    _declared[name] = _Declared(failures, cooldown, probes, probe_timeout)


def check_name(name: Any) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or "\0" in name:
        raise ValueError(f"A breaker's name has 1 to {LONGEST_NAME} characters, not {name!r}.")


def terms_of(name: str) -> Terms:
    settings = conf.current()
    own = _declared.get(name) or _Declared(None, None, None, None)
    return Terms(
        failures=own.failures or settings.breaker_failures,
        cooldown=own.cooldown or settings.breaker_cooldown,
        probes=own.probes or settings.breaker_probes,
        probe_timeout=own.probe_timeout or settings.breaker_probe_timeout,
    )


def declared_names() -> set[str]:
    return set(_declared)
