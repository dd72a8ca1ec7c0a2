"""Schedules that the code declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from jobs import payloads
from jobs.exceptions import BadValue
from jobs.priorities import Priority, parse_priority
from jobs.timetable.expressions import BadExpression, Expression
from jobs.timetable.policy import CatchUp


@dataclass(frozen=True)
class Declared:
    name: str
    type: str
    payload: str
    """As JSON."""
    cron: str
    timezone: str
    catch_up: CatchUp
    priority: int | None


_declared: dict[str, Declared] = {}


def periodic(
    type_name: str,
    payload: Mapping[str, Any] | None = None,
    /,
    *,
    cron: str,
    tz: str | None = None,
    name: str | None = None,
    catch_up: str = CatchUp.ONCE,
    priority: Priority | None = None,
    **arguments: Any,
) -> None:
    """A job of this type at every tick of the expression, in a time zone (without one, the site's own).

        periodic("shop.close_day", cron="0 3 * * *", tz="Europe/Berlin")
        periodic("shop.remind", {"days": 3}, cron="*/15 8-18 * * MON-FRI", name="reminders", catch_up="skip")

    In a job_types.py. A second schedule of the same type needs a `name`. `catch_up` says what becomes of ticks that
    passed while no worker was there: "skip", "once" or "all". Taken out of the code, it fires no more.
    """
    title = type_name if name is None else name
    if not 0 < len(title) <= 100 or "\0" in title:
        raise BadValue(f"A schedule's name has 1 to 100 characters, not {title!r}.", code="bad_name")
    if catch_up not in set(CatchUp):
        raise BadValue(
            f"{title}: catch_up is one of {', '.join(CatchUp)}, not {catch_up!r}.", code="bad_catch_up"
        )
    level = None
    if priority is not None:
        try:
            level = parse_priority(priority)
        except BadValue as problem:
            raise BadValue(f"{title}: {problem}", code=problem.code) from None
    zone = settings.TIME_ZONE if tz is None else tz
    try:
        Expression(cron, zone)
    except BadExpression as problem:
        raise BadExpression(f"The schedule {title}: {problem}", code=problem.code) from None
    body = payloads.encode_payload(payloads.merge(payload, arguments))
    new = Declared(title, type_name, body, cron, zone, CatchUp(catch_up), level)
    if _declared.get(title, new) != new:
        raise BadValue(
            f"A schedule named {title!r} is declared already; give this one another name=….",
            code="name_taken",
        )
    _declared[title] = new


def all_declared() -> dict[str, Declared]:
    return dict(_declared)
