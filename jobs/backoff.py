"""When a failed attempt is tried again. Pure: chance comes in as an argument."""

from __future__ import annotations

from datetime import timedelta

LONGEST = timedelta(days=100 * 366)
"""Nothing waits longer than a hundred years; the calendars of the databases end somewhere."""


def backoff(attempt: int, *, base: timedelta, cap: timedelta, chance: float) -> timedelta:
    """Exponential with jitter: attempt 1 waits about `base`, each further one twice as long, never over `cap`.

    `chance` in [0, 1) spreads the wait over the upper half, so that jobs that failed together do not return together.
    """
    exponent = min(max(attempt, 1) - 1, 60)
    full = min(cap.total_seconds(), base.total_seconds() * 2**exponent)
    return timedelta(seconds=full * (0.5 + chance / 2))
