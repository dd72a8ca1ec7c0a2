"""What every run ever added up to, type by type: the counters and histograms behind /metrics.

Counted together with the minutes (jobs/statistics.py), each run once. Nothing is ever taken away again: jobs may be
pruned or discarded, the totals stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jobs import database
from jobs.models import Outcome, RunTotal

BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Upper ends of the histograms' buckets, in seconds; what is longer falls into one more."""
BEYOND = "+Inf"
OUTCOMES = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.RUNNING)


@dataclass(frozen=True, slots=True)
class Group:
    """So many runs of one type that ended alike."""

    type: str
    outcome: str
    exhausted: bool
    """It was the last attempt of its job, and it failed."""
    ran: int | None
    """The bucket, by its number; None: it tells nothing about the time."""
    waited: int | None
    count: int
    ran_seconds: float
    waited_seconds: float


@dataclass
class Durations:
    buckets: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, bucket: int | None, count: int, seconds: float) -> None:
        if bucket is not None:
            end = bound_name(bucket)
            self.buckets[end] = self.buckets.get(end, 0) + count
            self.seconds += seconds


def bound_name(bucket: int) -> str:
    return f"{BOUNDS[bucket]:g}" if bucket < len(BOUNDS) else BEYOND


def cumulate(buckets: Mapping[str, int]) -> list[tuple[str, int]]:
    """How many took at most so long, for each of BOUNDS and all; counts under bounds of another release count too."""
    ends = [*(f"{bound:g}" for bound in BOUNDS), BEYOND]
    return [(end, sum(n for name, n in buckets.items() if float(name) <= float(end))) for end in ends]


def bucket_sql(seconds: str) -> str:
    """The number of the bucket that so many seconds fall into."""
    cases = " ".join(f"WHEN {seconds} <= {bound} THEN {number}" for number, bound in enumerate(BOUNDS))
    return f"CASE WHEN {seconds} IS NULL THEN NULL {cases} ELSE {len(BOUNDS)} END"


def add(groups: Iterable[Group]) -> None:
    """Inside the transaction that holds the mark of the counting, so one at a time."""
    by_type: dict[str, list[Group]] = {}
    for group in groups:
        by_type.setdefault(group.type, []).append(group)
    if not by_type or not database.has_table(RunTotal):
        return
    known = RunTotal.objects.in_bulk(list(by_type))
    totals = [_plus(known.get(name) or RunTotal(type=name), own) for name, own in sorted(by_type.items())]
    RunTotal.objects.bulk_create(
        totals,
        update_conflicts=True,
        update_fields=[f.name for f in RunTotal._meta.concrete_fields if not f.primary_key],
        unique_fields=["type"],
    )


def _plus(total: RunTotal, groups: Sequence[Group]) -> RunTotal:
    ran = Durations(dict(total.ran), total.ran_seconds)
    waited = Durations(dict(total.waited), total.waited_seconds)
    for group in groups:
        setattr(total, group.outcome, getattr(total, group.outcome) + group.count)
        total.exhausted += group.count if group.exhausted else 0
        ran.add(group.ran, group.count, group.ran_seconds)
        waited.add(group.waited, group.count, group.waited_seconds)
    total.ran, total.ran_seconds = ran.buckets, ran.seconds
    total.waited, total.waited_seconds = waited.buckets, waited.seconds
    return total
