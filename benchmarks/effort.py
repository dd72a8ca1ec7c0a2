"""How much a run does: the full one is for claims, the quick one for a first look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    name: str
    rounds: int  # how often each subject has its turn
    backlog: int  # jobs in a drain, the same for everyone
    drain_seconds: float  # a slow subject is stopped after this long
    trial_seconds: float | None  # the same, in the search for its best configuration; None: no search
    bulk: int  # jobs in one bulk enqueue
    singles: int  # single enqueues per round
    pickups: int  # pick-ups per round
    table_rows: int  # pending, and again as many waiting, in the claim measure
    recoveries: int  # workers killed, per kind of host
    idle_settle: float  # seconds before an idle worker is watched
    idle_seconds: float  # seconds it is watched


FULL = Effort(
    name="full",
    rounds=5,
    backlog=20_000,
    drain_seconds=4,
    trial_seconds=3,
    bulk=10_000,
    singles=3_000,
    pickups=50,
    table_rows=1_000_000,
    recoveries=5,
    idle_settle=10,
    idle_seconds=60,
)
QUICK = Effort(
    name="quick",
    rounds=1,
    backlog=10_000,
    drain_seconds=2,
    trial_seconds=None,
    bulk=10_000,
    singles=500,
    pickups=30,
    table_rows=100_000,
    recoveries=1,
    idle_settle=3,
    idle_seconds=6,
)
