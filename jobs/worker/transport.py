"""What stands between a worker and the queue: its database (at_database.py) or the site's HTTP API (over_http/).

Exactly what the loop, the pulse and the reporter ask of it. Loop, executor and handlers are the same on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jobs.lifecycle.leases import ClaimedJob, FailureReport, Lease
from jobs.lifecycle.running import ProgressReport

if TYPE_CHECKING:
    from jobs.worker.context import JobContext
    from jobs.worker.site import Site


class Hands(Protocol):
    """The worker, as a beat sees it: what it runs, and what it can be told."""

    def leases(self) -> list[Lease]: ...

    def renewed(self, *, as_of: float) -> None:
        """The leases of all that runs last as long as they can, from this moment of the worker's stopwatch."""

    def keep_only(self, alive: set[Lease], *, cancelled: Collection[Lease], as_of: float) -> None:
        """Whatever else runs has lost its lease, `cancelled` because its job was cancelled. `as_of`: the stopwatch
        before it was asked for."""

    def stop_all(self) -> list[Lease]:
        """Stop every job now. Returns the leases of those that had not ended."""

    def obey(self, order: str) -> None: ...

    def wake(self) -> None:
        """There may be something to claim."""


class Transport(Protocol):
    place: str
    """For the log: what cannot be reached when it cannot be reached."""
    unreachable: tuple[type[Exception], ...]
    """Later the same call will succeed."""
    troubles: tuple[type[Exception], ...]
    """Whatever else the other side may raise that a worker outlives: the unreachable among it."""
    awake_seconds: float
    """After a wake-up a worker keeps looking for this long, so that hints may be coalesced without a loss."""
    progress_seconds: float
    """How often the progress of a job is passed on."""
    farewell_seconds: float
    """How long handlers that were told to stop may take to clean up before the process ends."""
    place_is_held_until_reported: bool
    """A job that has ended counts as running until its end has been told; one that has failed does so anyway."""

    @property
    def name(self) -> str: ...

    @property
    def types(self) -> list[str]: ...

    @property
    def lease_seconds(self) -> float: ...

    # -- the worker itself ---------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Be known to the queue, as a new process."""

    def not_ready(self) -> str:
        """What is missing before a worker of this release can work; empty: nothing."""

    def may_come_back(self) -> bool:
        """Whether it makes sense to wait for what could not be reached."""

    def register_again(self) -> None: ...

    def beat(self, hands: Hands) -> float:
        """One round of the pulse; returns the seconds until the next."""

    def beat_soon(self) -> None:
        """The next round says everything anew."""

    def listen(self, on_hint: Callable[[], None]) -> None: ...

    def stop_listening(self) -> None: ...

    def longest_sleep(self, *, ends_by_itself: bool) -> float:
        """How long a worker with nothing to do may leave the queue unasked."""

    def leave(self) -> None: ...

    def close(self) -> None:
        """The process ends, however it came to that."""

    # -- its threads -----------------------------------------------------------------------------------------------

    def prepare_thread(self) -> None:
        """Called first in each of the worker's own threads, never where handlers run."""

    def prepare_claims(self) -> None:
        """Called in the thread that claims, once it does nothing else."""

    def reconnect(self) -> None: ...

    # -- its jobs ----------------------------------------------------------------------------------------------------

    def claim(self, places: int, running: Mapping[str, int]) -> tuple[list[ClaimedJob], float]:
        """Up to so many jobs, and this worker's stopwatch before it asked for them."""

    def unheard(self) -> set[Lease]:
        """What the worker holds, should the answer to a claim have been lost."""

    def complete_many(self, done: Sequence[tuple[Lease, Any]]) -> Collection[Lease]:
        """Returns the leases that are lost, as the next two do."""

    def release(self, leases: Collection[Lease], *, reason: str) -> Collection[Lease]: ...

    def report_progress(self, reports: Sequence[ProgressReport]) -> Collection[Lease]: ...

    def fail(self, lease: Lease, failure: FailureReport) -> str:
        """Returns the job's new status. Raises LeaseLost."""

    def is_empty(self) -> bool:
        """Nothing that this worker could run is pending, due or running anywhere."""

    def has_due(self) -> bool:
        """The time of a job that this worker could run has come, and it can be claimed in a moment."""

    def site_of(self, context: JobContext) -> Site | None:
        """What a handler has in place of the database; None: it has the database."""
