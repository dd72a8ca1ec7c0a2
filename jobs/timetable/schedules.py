"""Schedules in the database: what the code declares is brought there, and what is due is fired from there.

Whoever fires holds the lock of the schedule's row, and moves `next_at` on in the transaction that enqueues the job. So
a tick fires once, whoever looks at the same time and whoever dies in between. The clock is the database's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models.functions import Now

from jobs import conf, database, live, payloads, registry
from jobs.exceptions import EnqueueRefused
from jobs.lifecycle.enqueueing import insert, make_terms
from jobs.lifecycle.writing import Draft
from jobs.models import Firing, Job, Schedule
from jobs.models.schedule import Source
from jobs.timetable import policy
from jobs.timetable.declarations import Declared, all_declared
from jobs.timetable.expressions import BadExpression, Expression
from jobs.timetable.policy import CatchUp
from jobs.ulid import new_ulid

log = logging.getLogger("jobs.periodic")


def expression_of(schedule: Schedule) -> Expression:
    return Expression(schedule.cron, schedule.timezone)


# -- what the code declares --------------------------------------------------------------------------------------------


def sync_declared() -> None:
    """When a process starts that will fire: the declared schedules as rows; those no longer declared fire no more."""
    if database.has_table(Schedule):
        database.when_unlocked(lambda: _sync(all_declared()))


def _sync(declared: dict[str, Declared]) -> None:
    with database.atomic():
        now = database.read_clock()
        new = [
            Schedule(name=name, source=Source.CODE, **_definition(own), next_at=_expression(own).after(now))
            for name, own in sorted(declared.items())
        ]
        known = set(Schedule.objects.values_list("name", flat=True))
        Schedule.objects.bulk_create([row for row in new if row.name not in known], ignore_conflicts=True)
        for row in Schedule.objects.select_for_update().order_by("name"):
            own = declared.get(row.name)
            if row.source != Source.CODE:
                if own:
                    log.error("schedule %s of the code gives way to one of that name in the admin", row.name)
            elif own is None:
                _change(row, removed=True)
            else:
                _change(row, **_definition(own), removed=False)


def _definition(own: Declared) -> dict[str, Any]:
    return {
        "type": own.type,
        "payload": json.loads(own.payload),
        "cron": own.cron,
        "timezone": own.timezone,
        "catch_up": own.catch_up.value,
        "priority": own.priority,
    }


def _expression(own: Declared) -> Expression:
    return Expression(own.cron, own.timezone)


# -- what people do ----------------------------------------------------------------------------------------------------


def pause(names: Collection[str]) -> list[str]:
    """These fire no more until they are resumed; ticks that pass meanwhile are not made up for."""
    return _change_all(names, lambda row: _change(row, paused=True))


def resume(names: Collection[str]) -> list[str]:
    """These fire from their next tick on. One that the code no longer declares, or whose expression means nothing,
    does not."""
    return _change_all(names, _resume)


def _resume(row: Schedule) -> bool:
    try:
        return _change(row, paused=False, problem="")
    except BadExpression as problem:
        Schedule.objects.filter(pk=row.pk).update(problem=str(problem))
        return False


def run_now(name: str) -> Job | None:
    """A job at once, beside those of the ticks; None: there is no such schedule. Raises EnqueueRefused."""

    def write() -> Job | None:
        with database.atomic():
            row = Schedule.objects.select_for_update().filter(pk=name).first()
            if row is None:
                return None
            job = _enqueue(row)
            Firing.objects.create(schedule=row, tick=database.read_clock(), by_hand=True, job_id=job.pk)
            return job

    return database.when_unlocked(write)


def store(row: Schedule) -> None:
    """Save what somebody has written. A tick that is due stays due unless the expression is another one."""
    with database.atomic():
        before = Schedule.objects.select_for_update().filter(pk=row.pk).first()
        if before:
            row.paused, row.removed, row.next_at = before.paused, before.removed, before.next_at
        if before is None or _timing(before) != _timing(row):
            row.problem = ""
            reschedule(row)
        row.save()


def reschedule(row: Schedule) -> None:
    """After its expression was changed: set its next tick, which the caller saves."""
    active = not row.paused and not row.removed
    row.next_at = expression_of(row).after(database.read_clock()) if active else None


def _change_all(names: Collection[str], change: Callable[[Schedule], bool]) -> list[str]:
    def write() -> list[str]:
        with database.atomic():
            rows = Schedule.objects.select_for_update().filter(pk__in=list(names)).order_by("name")
            changed = [row.name for row in rows if change(row)]
            if changed:
                live.hint_on_commit()
            return changed

    return database.when_unlocked(write)


def _change(row: Schedule, **values: Any) -> bool:
    """Write what differs of a locked row; another expression, or a change of heart, sets its next tick anew."""
    if all(getattr(row, key) == value for key, value in values.items()):
        return False
    before = _timing(row)
    for key, value in values.items():
        setattr(row, key, value)
    if _timing(row) != before:
        reschedule(row)
    row.save()
    return True


def _timing(row: Schedule) -> tuple[Any, ...]:
    """What its next tick depends on. While that stays the same, a tick that is due stays due."""
    return row.cron, row.timezone, row.paused, row.removed


# -- firing ------------------------------------------------------------------------------------------------------------


def fire_due() -> list[str]:
    """Whatever is due and known to this process. Returns the ids of the new jobs."""
    due = Schedule.objects.filter(next_at__lte=Now()).order_by("next_at")
    fired: list[str] = []
    for name, source, type_name in due.values_list("name", "source", "type"):
        if not _is_ours(name, source, type_name):
            continue  # a process with newer, or older, code knows it
        try:
            fired += database.when_unlocked(partial(_fire, name))
        except BadExpression as problem:
            _give_up(name, str(problem))
    return fired


def _is_ours(name: str, source: str, type_name: str) -> bool:
    declared = source != Source.CODE or name in all_declared()
    return declared and registry.find(type_name) is not None


def _fire(name: str) -> list[str]:
    settings = conf.current()
    with database.atomic():
        # Held by another process: that one fires it. Fired just now: no longer due.
        row = Schedule.objects.select_for_update(skip_locked=True).filter(pk=name, next_at__lte=Now()).first()
        if row is None:
            return []
        now, expression, catch_up = database.read_clock(), expression_of(row), CatchUp(row.catch_up)
        due = expression.newest(row.next_at, now, policy.ticks_wanted(catch_up, settings.catch_up_limit))
        chosen = policy.choose(due, catch_up, now=now, grace=settings.periodic_grace)
        jobs = [job for tick in _not_fired(row, chosen) if (job := _fire_tick(row, tick))]
        Schedule.objects.filter(pk=name).update(next_at=expression.after(now))
        live.hint_on_commit()
    for tick in chosen:
        log.info("schedule %s fired for %s", name, f"{tick:%Y-%m-%d %H:%M:%S} UTC")
    if not chosen:
        log.warning("schedule %s was not there for its ticks until %s UTC", name, f"{now:%Y-%m-%d %H:%M:%S}")
    return [job.pk for job in jobs]


def _not_fired(row: Schedule, ticks: list[datetime]) -> list[datetime]:
    """Beside what `next_at` says: nothing fires twice, not even when somebody has set it back."""
    fired = Firing.objects.filter(schedule=row, tick__in=ticks, by_hand=False)
    before = set(fired.values_list("tick", flat=True))
    return [tick for tick in ticks if tick not in before]


def _fire_tick(row: Schedule, tick: datetime) -> Job | None:
    try:
        job = _enqueue(row)
    except EnqueueRefused as refusal:
        log.error("schedule %s brought no job: %s", row.name, refusal)
        Firing.objects.create(schedule=row, tick=tick, error=str(refusal)[:1000])
        return None
    Firing.objects.create(schedule=row, tick=tick, job_id=job.pk)
    return job


def _enqueue(row: Schedule) -> Job:
    """Whatever the depth of the queue: a handful of jobs that were foreseen is not what fills it."""
    terms = make_terms(row.type, priority=row.priority, submitter=f"periodic:{row.name}")
    return insert(terms, Draft(new_ulid(), payloads.encode_payload(row.payload)))


def _give_up(name: str, problem: str) -> None:
    """Its expression means nothing here (a time zone that is gone, a row changed by hand): paused, and it says why."""
    log.error("schedule %s is paused: %s", name, problem)
    Schedule.objects.filter(pk=name).update(paused=True, next_at=None, problem=problem)
