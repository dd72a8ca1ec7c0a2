"""What the tests of periodic jobs share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jobs import database
from jobs.models import Firing, Schedule
from jobs.timetable import schedules


def make_schedule(name: str = "nightly", *, cron: str = "* * * * *", **fields: Any) -> Schedule:
    """A schedule of the admin."""
    row = Schedule(**{"name": name, "type": "tests.noop", "cron": cron, **fields})
    schedules.reschedule(row)
    row.save(force_insert=True)
    return row


def make_due(name: str = "nightly", *, minutes_ago: int = 0) -> None:
    """As if nobody had fired since so many whole minutes before the last one."""
    minute = database.read_clock().replace(second=0, microsecond=0)
    changed = Schedule.objects.filter(pk=name, next_at__isnull=False).update(
        next_at=minute - timedelta(minutes=minutes_ago)
    )
    assert changed == 1


def ticks_of(name: str = "nightly") -> list[Any]:
    return list(
        Firing.objects.filter(schedule=name, by_hand=False).order_by("tick").values_list("tick", flat=True)
    )
