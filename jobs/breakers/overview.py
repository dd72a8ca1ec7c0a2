"""The breakers as people and scripts see them: those that have a row, and those that the code names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Now

from jobs import database, registry
from jobs.breakers import policy
from jobs.breakers.declarations import declared_names, terms_of
from jobs.breakers.policy import State, Terms
from jobs.models import Breaker, BreakerProbe

MOST = 200


@dataclass(frozen=True)
class BreakerView:
    name: str
    state: str
    """As of now: an open one whose cooldown is over is half-open, whether anybody has asked it yet or not."""
    failures: int
    reason: str
    """The last failure."""
    failed_at: datetime | None
    since: datetime | None
    """In this state; None: it has never been in another."""
    retry_at: datetime | None
    probes: int
    """Trial calls under way."""
    terms: Terms
    types: Sequence[str]
    """The job types that depend on it, as far as this process knows."""

    @property
    def is_closed(self) -> bool:
        return self.state == State.CLOSED

    @property
    def is_disturbed(self) -> bool:
        """There is something to reset."""
        return not self.is_closed or self.failures > 0


def read_breakers(*, only_rows: bool = False) -> list[BreakerView]:
    """By name. `only_rows`: without those that have never failed."""
    if not database.has_table(Breaker):
        return []
    types: dict[str, list[str]] = {}
    for kind in registry.all_types():
        if kind.breaker:
            types.setdefault(kind.breaker, []).append(kind.name)
    trials = BreakerProbe.objects.filter(breaker=OuterRef("name")).order_by().values("breaker")
    read = Breaker.objects.annotate(
        now=Now(), probes=Subquery(trials.annotate(count=Count("pk")).values("count"))
    )
    rows = {row.name: row for row in read[:MOST]}
    names = sorted(rows if only_rows else {*rows, *types, *declared_names()})
    return [_view(name, rows.get(name), types.get(name, [])) for name in names]


def states_by_type(views: Iterable[BreakerView]) -> dict[str, str]:
    """Job types whose breaker is not closed, and what it is."""
    return {name: view.state for view in views if not view.is_closed for name in view.types}


def _view(name: str, row: Any, types: Sequence[str]) -> BreakerView:
    stored = row.circuit if row else policy.Circuit()
    circuit = policy.as_of(stored, row.now) if row else stored
    since = stored.retry_at if circuit != stored else row.since if row else None
    return BreakerView(
        name=name,
        state=circuit.state.value,
        failures=circuit.failures,
        reason=row.reason if row else "",
        failed_at=row.failed_at if row else None,
        since=since,
        retry_at=circuit.retry_at,
        probes=(row.probes or 0) if row else 0,
        terms=terms_of(name),
        types=types,
    )
