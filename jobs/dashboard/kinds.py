"""The job types: what waits and runs of each, whether it is paused, how many may run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs import registry
from jobs.breakers.overview import BreakerView, states_by_type
from jobs.dashboard.addresses import Addresses
from jobs.dashboard.depth import Count, read_types
from jobs.dashboard.work import RunningJob
from jobs.models import JobTypeState


@dataclass(frozen=True)
class KindRow:
    name: str
    is_paused: bool
    is_registered: bool
    override: int | None
    """The limit that somebody has set; None: as declared."""
    declared: int | None
    pending: Count
    oldest: datetime | None
    running: int
    address: str
    jobs_address: str
    breaker: str = ""
    """The state of the breaker it depends on, unless that is closed."""

    @property
    def limit(self) -> int | None:
        return self.declared if self.override is None else self.override

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.running >= self.limit

    @property
    def state(self) -> str:
        return "paused" if self.is_paused else f"breaker {self.breaker}" if self.breaker else ""

    @property
    def load(self) -> str:
        """ "2 of 3" """
        return str(self.running) if self.limit is None else f"{self.running} of {self.limit}"


def read_kinds(
    running: Sequence[RunningJob], breakers: Sequence[BreakerView], addresses: Addresses
) -> list[KindRow]:
    """Those that this process knows, and those that some worker has registered."""
    states = {state.name: state for state in JobTypeState.objects.all()}
    known = {kind.name: kind for kind in registry.all_types()}
    names = sorted(states.keys() | known.keys())
    depths = read_types(names)
    broken = states_by_type(breakers)
    at_work = Counter(job.type for job in running)
    return [
        KindRow(
            name=name,
            is_paused=name in states and states[name].paused,
            is_registered=name in known,
            override=states[name].concurrency if name in states else None,
            declared=known[name].concurrency if name in known else None,
            pending=depths[name].pending,
            oldest=depths[name].oldest,
            running=at_work[name],
            address=addresses.type(name) if name in states else "",
            jobs_address=addresses.jobs(type=name),
            breaker=broken.get(name, ""),
        )
        for name in names
    ]
