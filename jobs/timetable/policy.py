"""What becomes of ticks at which nobody was there to fire."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum


class CatchUp(StrEnum):
    SKIP = "skip"
    """Missed is missed."""
    ONCE = "once"
    """However many were missed, one job, for the last of them."""
    ALL = "all"
    """A job for each, up to CATCH_UP_LIMIT of the newest."""


def ticks_wanted(catch_up: CatchUp, limit: int) -> int:
    """How many of the newest ticks matter at all."""
    return limit if catch_up is CatchUp.ALL else 1


def choose(due: Sequence[datetime], catch_up: CatchUp, *, now: datetime, grace: timedelta) -> list[datetime]:
    """Those of the newest due ticks (in their order) that get a job. A tick within the grace was not missed."""
    if catch_up is CatchUp.ALL:
        return list(due)
    return [tick for tick in due[-1:] if catch_up is CatchUp.ONCE or now - tick <= grace]
