"""What holds of breakers at every moment, for check_invariants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef, Q

from jobs.breakers.policy import State
from jobs.invariants import rule
from jobs.models import Breaker, BreakerProbe


@rule("a breaker has one of the three states, and says until when exactly while it is open")
def _states() -> Iterable[Any]:
    agrees = Q(state=State.OPEN, retry_at__isnull=False) | Q(
        state__in=(State.CLOSED, State.HALF_OPEN), retry_at__isnull=True
    )
    broken: Iterable[Any] = Breaker.objects.exclude(agrees)
    return broken


@rule("only a half-open breaker has trial calls")
def _stray_probes() -> Iterable[Any]:
    half_open = Breaker.objects.filter(name=OuterRef("breaker"), state=State.HALF_OPEN)
    stray: Iterable[Any] = BreakerProbe.objects.filter(~Exists(half_open)).order_by("pk")
    return stray
