"""What holds of schedules at every moment, for check_invariants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q

from jobs.invariants import rule
from jobs.models import Firing, Schedule


@rule("a schedule has a next firing exactly while it is neither paused nor removed")
def _next() -> Iterable[Any]:
    active = Q(paused=False, removed=False)
    broken: Iterable[Any] = Schedule.objects.filter(
        (active & Q(next_at__isnull=True)) | (~active & Q(next_at__isnull=False))
    )
    return broken


@rule("a tick of a schedule fires once")
def _twice() -> Iterable[Any]:
    ticks = Firing.objects.filter(by_hand=False).values("schedule", "tick").order_by()
    broken: Iterable[Any] = ticks.annotate(count=Count("pk")).filter(count__gt=1)
    return broken


@rule("a firing has brought a job or says why not")
def _silent() -> Iterable[Any]:
    broken: Iterable[Any] = Firing.objects.filter(job_id="", error="").order_by("pk")
    return broken


@rule("the next firing of a schedule lies after all that have fired")
def _backwards() -> Iterable[Any]:
    later = Firing.objects.filter(schedule=OuterRef("pk"), by_hand=False, tick__gte=OuterRef("next_at"))
    broken: Iterable[Any] = Schedule.objects.filter(Exists(later))
    return broken
