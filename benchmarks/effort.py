"""How much a run does: the full one is for claims, the quick one for a first look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VideoEffort:
    rounds: int  # how often B, the usual way and Sprocket have their turn
    height: int  # of the source
    seconds: int  # of the source
    segments_per_chunk: int  # the pipeline's setting; its default is 5
    thread_trials: int  # of B with and without a thread of its own per encoder; 0: no search
    vmaf_every: int  # every n-th picture is looked at
    short_rounds: int  # deliveries of a clip of a few seconds
    long_minutes: int  # of the file for the memory measure
    remote_minutes: int  # of the one that goes to a remote worker: 23 MB each


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
    live_steps: int  # of a job that pages look at, for each turn; at most 99
    table_rows: int  # pending, and again as many waiting, in the claim measure
    recoveries: int  # workers killed, per kind of host
    idle_settle: float  # seconds before an idle worker is watched
    idle_seconds: float  # seconds it is watched
    video: VideoEffort


FULL = Effort(
    name="full",
    rounds=5,
    backlog=20_000,
    drain_seconds=4,
    trial_seconds=3,
    bulk=10_000,
    singles=3_000,
    pickups=50,
    live_steps=20,
    table_rows=1_000_000,
    recoveries=5,
    idle_settle=10,
    idle_seconds=60,
    video=VideoEffort(
        rounds=3,
        height=1080,
        seconds=60,
        segments_per_chunk=5,
        thread_trials=3,
        vmaf_every=3,
        short_rounds=3,
        long_minutes=60,
        remote_minutes=90,
    ),
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
    live_steps=5,
    table_rows=100_000,
    recoveries=1,
    idle_settle=3,
    idle_seconds=6,
    video=VideoEffort(
        rounds=1,
        height=480,
        seconds=10,
        segments_per_chunk=1,  # or so short a source would be a single chunk
        thread_trials=0,
        vmaf_every=5,
        short_rounds=1,
        long_minutes=2,
        remote_minutes=2,
    ),
)
