"""Cron expressions in a time zone: which moments they mean. No clock, no database.

Five fields (minute, hour, day of month, month, day of week), or six with seconds in front. Where clocks are put forward
or back, an expression with a fixed minute and hour fires once that day, at the first moment that exists; one with `*`
there, or with seconds, goes by elapsed time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from jobs.exceptions import BadValue

LONGEST = 100
_FIELDS = ("second", "minute", "hour", "day-of-month", "month", "day-of-week")
_MEANING = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L or LW, and a day that the month has",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 or SUN to SAT, such as MON#2 or 5L",
}
_FIRST_LOOK = timedelta(minutes=2)


class BadExpression(BadValue):
    """It says which field is wrong, and what may be there."""

    code = "bad_expression"


@dataclass(frozen=True)
class Expression:
    cron: str
    zone: str

    def __post_init__(self) -> None:
        if len(self.cron) > LONGEST:
            raise BadExpression(
                f"A cron expression is text of at most {LONGEST} characters.", code="too_long"
            )
        _zone(self.zone)
        try:
            self._ticks_from(datetime(2024, 1, 1, tzinfo=UTC))
        except CronSimError as problem:
            raise _explain(self.cron, str(problem)) from None
        if self._next(datetime(2024, 1, 1, tzinfo=UTC)) is None:
            raise BadExpression(f"{self.cron!r} never fires: no month has such a day.", code="never_fires")

    def after(self, moment: datetime) -> datetime:
        """The first tick later than this."""
        tick = self._next(moment)
        assert tick is not None  # an expression has no year, so what has fired once fires again
        return tick

    def local(self, tick: datetime) -> datetime:
        """As clocks show it in its time zone."""
        return tick.astimezone(_zone(self.zone))

    def newest(self, since: datetime, until: datetime, limit: int) -> list[datetime]:
        """The last ticks, so many at most, from `since` to `until`, both included; in their order."""
        span = _FIRST_LOOK
        while True:
            start = max(since, until - span)
            # A moment before, so that a tick at `start` itself is found.
            ticks = takewhile(lambda tick: tick <= until, self._ticks_from(start - timedelta(microseconds=1)))
            found = deque(ticks, maxlen=limit)
            if start == since or len(found) == limit:
                return list(found)
            span *= 4

    def _next(self, moment: datetime) -> datetime | None:
        return next(self._ticks_from(moment), None)

    def _ticks_from(self, moment: datetime) -> Iterator[datetime]:
        return _rising(CronSim(self.cron, moment.astimezone(_zone(self.zone))), moment)


def _rising(ticks: Iterator[datetime], last: datetime) -> Iterator[datetime]:
    """In UTC, each once: local times that are skipped together, or an hour that comes twice, make one tick."""
    for local in ticks:
        tick = local.astimezone(UTC)
        if tick > last:
            last = tick
            yield tick


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (
        KeyError,
        ValueError,
        OSError,
        TypeError,
    ):  # whatever a hostile name does to the file system's names
        raise BadExpression(
            f"{str(name)[:80]!r} is not a time zone such as UTC or Europe/Berlin (or this machine has no tzdata).",
            code="not_a_time_zone",
        ) from None


def _explain(cron: str, problem: str) -> BadExpression:
    parts = cron.split()
    wrong = problem.removeprefix("Bad ")
    if wrong not in _FIELDS:
        return BadExpression(
            f"{cron!r} has {len(parts)} fields; a cron expression has five (minute, hour, day of month, month, "
            "day of week), or six with seconds in front.",
            code="wrong_number_of_fields",
        )
    field = parts[_FIELDS.index(wrong) - (6 - len(parts))]
    return BadExpression(
        f"{cron!r}: {field!r} is no {wrong} ({_MEANING[wrong]}; lists 1,2, ranges 1-5 and steps */15 of them).",
        code=f"bad_{wrong.replace('-', '_')}",
    )
