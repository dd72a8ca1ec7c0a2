"""JobContext: what a handler gets as its first argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobs import payloads
from jobs.exceptions import JobCancelled, JobStopped, JobTimeout, PermanentFailure
from jobs.lifecycle.leases import ClaimedJob, Lease
from jobs.lifecycle.running import ProgressReport

if TYPE_CHECKING:
    from jobs.models import Job
    from jobs.priorities import Priority
    from jobs.worker.site import Site
    from jobs.workflows import After

DRAINING = "draining"
CANCELLED = "cancelled"
TIMEOUT = "timeout"
LOST = "lease lost"
_URGENCY = {"": 0, DRAINING: 1, CANCELLED: 2, TIMEOUT: 3, LOST: 3}


def stop_error(reason: str) -> type[JobStopped]:
    """What is raised in a handler that is stopped for this reason."""
    return {CANCELLED: JobCancelled, TIMEOUT: JobTimeout}.get(reason, JobStopped)


class JobContext:
    """The running job, seen from inside its handler."""

    site: Site | None = None
    """What a handler has of the site when its worker came over HTTP; None: it has the database itself."""

    def __init__(self, claimed: ClaimedJob, *, report: Callable[[ProgressReport], None]) -> None:
        self._claimed = claimed
        self._report = report
        self._last_report: ProgressReport | None = None
        self._stop_reason = ""
        self.interrupted = False
        """The handler has no time left to end by itself."""
        self._when_stopped: Callable[[], object] | None = None

    @property
    def id(self) -> str:
        return self._claimed.lease.job_id

    @property
    def lease(self) -> Lease:
        return self._claimed.lease

    @property
    def type(self) -> str:
        return self._claimed.type

    @property
    def attempt(self) -> int:
        """1 for the first run."""
        return self._claimed.attempt

    @property
    def max_attempts(self) -> int:
        return self._claimed.max_attempts

    @property
    def correlation_id(self) -> str:
        return self._claimed.correlation_id

    @property
    def submitter(self) -> str:
        return self._claimed.submitter

    @property
    def payload(self) -> dict[str, Any]:
        return self._claimed.payload

    def progress(self, percent: float, *, step: str = "") -> None:
        """Say how far the work is (0 to 100). Cheap: the worker writes the latest value a few times a second.

        It also proves that the handler is alive, which keeps the lease. Raises JobStopped once the lease is gone. After
        a cancel it does nothing while the handler may clean up, and raises JobCancelled when that time is over.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"progress is between 0 and 100, not {percent}")
        if self.interrupted:
            self.raise_if_stopped_now()
        if self.must_stop:
            return
        self._last_report = ProgressReport(self.lease, float(percent), payloads.storable(step))
        self._report(self._last_report)

    def still_alive(self, *, step: str = "") -> None:
        """Keep the lease during something that takes long. Raises as raise_if_stopped_now() does."""
        self.raise_if_stopped_now()
        last = self._last_report
        self.progress(last.percent if last else 0.0, step=(last.step if last else "") or step)

    def raise_if_stopped_now(self) -> None:
        """As raise_if_stopped, but a draining job may go on."""
        if self.must_stop:
            self.raise_if_stopped()

    @property
    def should_stop(self) -> bool:
        """True as soon as the worker wants this handler to end: drain, cancel, timeout or a lost lease."""
        return bool(self._stop_reason)

    @property
    def stop_reason(self) -> str:
        """Empty, or why the handler should end.

        "draining": it may finish within the drain timeout. "cancelled": it has CANCEL_GRACE to clean up. "timeout",
        "lease lost": it is being interrupted.
        """
        return self._stop_reason

    @property
    def must_stop(self) -> bool:
        """should_stop for any reason but a drain: what the handler still achieves will not count."""
        return self._stop_reason not in ("", DRAINING)

    def raise_if_stopped(self) -> None:
        """End the handler here if it should stop. A draining job goes back to the queue and loses no attempt.

        Raises JobCancelled, JobTimeout or, for any other reason, JobStopped.
        """
        if self._stop_reason:
            raise stop_error(self._stop_reason)(self._stop_reason)

    def stop(self, reason: str) -> None:
        """Called by the worker: ask the handler to end. Only a more urgent reason replaces the one there is."""
        if _URGENCY[reason] > _URGENCY[self._stop_reason]:
            self._stop_reason = reason

    def interrupt(self, reason: str) -> None:
        """Called by the worker: the handler must end now."""
        self.stop(reason)
        self.interrupted = True
        self._wake()

    def when_stopped(self, callback: Callable[[], object] | None) -> None:
        """Called by the worker, for a handler that must be woken to notice that it is interrupted."""
        self._when_stopped = callback
        self._wake()

    def _wake(self) -> None:
        callback = self._when_stopped
        if callback is not None and self.interrupted:
            with suppress(RuntimeError):  # the handler's event loop has ended in this instant
                callback()

    def add(
        self,
        type_name: str,
        payload: Mapping[str, Any] | None = None,
        /,
        *,
        key: str | None = None,
        after: After = (),
        priority: Priority | None = None,
        delay: timedelta | float | None = None,
        unique_key: str | None = None,
        max_attempts: int | None = None,
        **arguments: Any,
    ) -> Job:
        """Add a child job. With a `key`, a second attempt of this job finds the child that the first one added.

        Bound to the lease: raises LeaseLost when another worker owns this job by now.
        """
        if self.site is not None:
            raise PermanentFailure(
                f"{self.type} adds {type_name} and runs on a worker without database: declare it without remote=."
            )
        from jobs.lifecycle.enqueueing import check_unique_key, make_terms
        from jobs.lifecycle.writing import Draft
        from jobs.ulid import new_ulid
        from jobs.workflows import add_child

        terms = make_terms(
            type_name,
            priority=self._claimed.priority if priority is None else priority,
            delay=delay,
            submitter=self.submitter,
            correlation_id=self.correlation_id,
            max_attempts=max_attempts,
        )
        body = payloads.encode_payload(payloads.merge(payload, arguments))
        return add_child(self.lease, terms, Draft(new_ulid(), body, check_unique_key(unique_key)), after, key)
