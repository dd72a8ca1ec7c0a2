"""Runs handlers in threads (or child processes) and keeps each of them from harming the others."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from django.db import connections

from jobs import conf, registry, tracing
from jobs.lifecycle.leases import ClaimedJob, FailureReport, Lease
from jobs.lifecycle.running import ProgressReport
from jobs.logs import log_context
from jobs.worker import isolation
from jobs.worker.context import CANCELLED, DRAINING, LOST, TIMEOUT, JobContext
from jobs.worker.handling import Outcome, interrupt_thread, run_handler

if TYPE_CHECKING:
    from jobs.worker.site import Site

log = logging.getLogger("jobs.worker")


@dataclass(slots=True)
class Run:
    """A claimed job on its way through a slot."""

    claimed: ClaimedJob
    context: JobContext
    isolated: bool
    started_at: float
    """By this worker's own stopwatch: when the claim had been answered."""
    deadline: float | None
    trusted_until: float
    """By this worker's own stopwatch: the lease certainly lives until then, even if the queue cannot be asked."""
    grace_ends: float | None = None
    """It was cancelled and may clean up until then."""
    thread: int | None = None
    settled: bool = False
    """Its outcome is with the reporter; nobody else decides about it."""
    abandoned: bool = False
    """Its slot was taken away; whatever it still does is of no consequence."""
    thread_lost: bool = False
    """Its thread was interrupted, or hangs: it serves no other job."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Executor:
    """As many slots as the worker's concurrency; threads are started when they are needed."""

    def __init__(
        self,
        concurrency: int,
        *,
        lease_seconds: float,
        on_progress: Callable[[ProgressReport], None],
        on_outcome: Callable[[Outcome], None],
        on_free_slot: Callable[[], None],
        site_of: Callable[[JobContext], Site | None] = lambda context: None,
    ) -> None:
        self.concurrency = concurrency
        self.lease_seconds = lease_seconds
        self._on_progress = on_progress
        self._on_outcome = on_outcome
        self._on_free_slot = on_free_slot
        self.worker_name = ""
        """Known once the worker is known to the queue."""
        self._site_of = site_of
        self._queue: queue.SimpleQueue[Run] = queue.SimpleQueue()
        self._runs: dict[Lease, Run] = {}
        self._given_up: set[Lease] = set()
        self._working: dict[int, Run] = {}
        self._idle = 0
        self._threads = 0
        self._counting = threading.Lock()
        self._pid = os.getpid()

    # -- slots ---------------------------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        return len(self._runs)

    @property
    def free(self) -> int:
        return self.concurrency - len(self._runs)

    def running_by_type(self) -> Counter[str]:
        return Counter(run.claimed.type for run in list(self._runs.values()))

    def leases(self) -> list[Lease]:
        return list(self._runs)

    def gave_up(self, held: set[Lease]) -> set[Lease]:
        """Those of these leases whose job was stopped here: it ran, so recovery decides, and the attempt counts."""
        return self._given_up & held

    def start(self, jobs: Sequence[ClaimedJob], *, claimed_at: float) -> None:
        """Hand claimed jobs to the threads. `claimed_at`: this worker's stopwatch before it asked for them."""
        started_at = time.monotonic()
        for claimed in jobs:
            kind = registry.find(claimed.type)
            timeout = kind.timeout.total_seconds() if kind and kind.timeout else None
            context = JobContext(claimed, report=self._on_progress)
            context.site = self._site_of(context)
            run = Run(
                claimed,
                context,
                isolated=bool(kind and kind.isolate),
                started_at=started_at,
                deadline=started_at + timeout if timeout else None,
                trusted_until=claimed_at + self.lease_seconds,
            )
            self._runs[claimed.lease] = run
            self._queue.put(run)
        if self._threads == 0:
            self._add_thread()

    def relieve(self) -> bool:
        """Start more threads while jobs wait for one. Returns whether any job was waiting.

        Called a moment after start(): handlers that end at once need one thread only, and no switching between many.
        """
        waiting = self._queue.qsize()
        with self._counting:
            wanted = min(waiting - self._idle, self.concurrency - self._threads)
        for _ in range(wanted):
            self._add_thread()
        return waiting > 0

    def _add_thread(self) -> None:
        self._count(threads=1)
        threading.Thread(target=self._serve, name=f"slot-{self._threads}", daemon=True).start()

    def _count(self, *, threads: int = 0, idle: int = 0) -> None:
        with self._counting:
            self._threads += threads
            self._idle += idle

    def _serve(self) -> None:
        while True:
            self._count(idle=1)
            run = self._queue.get()
            self._count(idle=-1)
            self._working[id(run)] = run
            try:
                self._execute(run)
            except BaseException as error:
                # The child process could not be started, or a late stop arrived after the handler had ended.
                log.warning("job %s: %r outside of its handler", run.claimed.lease.job_id, error)
                self._finish(run, Outcome(run.claimed.lease, failure=FailureReport.of(error)))
            finally:
                self._working.pop(id(run), None)
                if run.context.site is not None:
                    run.context.site.close()  # once more: the first time may have been interrupted
            if run.thread_lost:
                return

    # -- one job -------------------------------------------------------------------------------------------------

    def _execute(self, run: Run) -> None:
        claimed = run.claimed
        if run.context.must_stop:
            self._finish(run, None)
            return
        with log_context(**self._log_fields(run)), tracing.running(claimed) as span:
            try:
                if run.isolated:
                    outcome = isolation.run_in_child(run.context)
                else:
                    with run.lock:
                        if run.abandoned:
                            return
                        run.thread = threading.get_ident()
                    outcome = run_handler(run.context)
                    if os.getpid() != self._pid:
                        os._exit(0)  # the handler forked: this is its child, which has no business here
                    with run.lock:
                        run.thread = None
            finally:
                if run.context.site is not None:
                    run.context.site.close()
            tracing.note_end(span, outcome.failure if outcome else None)
            self._finish(run, outcome)
            forget_connections()

    def _log_fields(self, run: Run) -> dict[str, str]:
        return {
            "job_id": run.claimed.lease.job_id,
            "job_type": run.claimed.type,
            "correlation_id": run.claimed.correlation_id,
            "worker": self.worker_name,
        }

    def _hand_over(self, run: Run, outcome: Outcome) -> None:
        if outcome.failure is not None:
            outcome = replace(outcome, log_fields=self._log_fields(run))
        self._on_outcome(outcome)

    def _finish(self, run: Run, outcome: Outcome | None) -> None:
        """First the outcome, then the slot: a worker without running jobs has nothing left to report."""
        with run.lock:
            if run.settled or run.abandoned:
                return
            run.settled = True
            if outcome is None or run.grace_ends is not None:
                self._given_up.add(run.claimed.lease)
            else:
                self._hand_over(run, outcome)
        if outcome is not None and outcome.failure and run.grace_ends is not None:
            log.warning(
                "job %s raised %s after it was cancelled: %s",
                run.claimed.lease.job_id,
                outcome.failure.type,
                outcome.failure.message,
                extra={"code": "failed_after_cancel"},
            )
        self._runs.pop(run.claimed.lease, None)
        self._on_free_slot()

    # -- stopping ------------------------------------------------------------------------------------------------

    def ask_to_drain(self) -> None:
        for run in list(self._runs.values()):
            run.context.stop(DRAINING)

    def keep_only(self, alive: set[Lease], *, cancelled: Collection[Lease] = (), as_of: float) -> None:
        """Stop the jobs whose lease is gone: those that were cancelled after their grace, the others now, since another
        worker may start them. `as_of`: the stopwatch before the queue was asked."""
        self._given_up &= alive
        for lease, run in list(self._runs.items()):
            if lease in alive:
                continue
            if run.started_at > as_of:
                continue  # its claim may have been committed after the question was answered
            if lease in cancelled:
                self._ask_to_stop(run)
            else:
                self._stop(run, LOST)

    def leases_renewed(self, *, as_of: float) -> None:
        for run in list(self._runs.values()):
            run.trusted_until = max(run.trusted_until, as_of + self.lease_seconds)

    def enforce_deadlines(self) -> None:
        """Stop what has used up its grace after a cancel or its timeout, and what may have lost its lease while the
        queue was out of reach."""
        now = time.monotonic()
        for run in list(self._runs.values()):
            if run.grace_ends is not None:
                if now > run.grace_ends:
                    self._stop(run, CANCELLED)
            elif run.deadline is not None and now > run.deadline:
                self._stop(run, TIMEOUT)
            elif now > run.trusted_until:
                log.error(
                    "job %s: its lease could not be renewed in time; stopping it",
                    run.claimed.lease.job_id,
                    extra={"code": "lease_not_renewed"},
                )
                self._stop(run, LOST)

    def stop_all(self) -> list[Lease]:
        """Stop every job now; its slot is free for others. Returns the leases of those that had not ended."""
        stopped = []
        for lease, run in list(self._runs.items()):
            if not run.settled:
                stopped.append(lease)
            self._stop(run, LOST)
        return stopped

    def settle(self, seconds: float) -> bool:
        """Give the handlers that were stopped this long to clean up. False: one still hangs."""
        deadline = time.monotonic() + seconds
        while self._working and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self._working

    def stop_everything(self) -> list[Lease]:
        """At the end of a drain: what still runs is given up. Returns the leases to release."""
        leftovers = []
        for lease, run in list(self._runs.items()):
            run.context.interrupt(LOST)
            with run.lock:
                if not run.settled:
                    run.abandoned = True
                    leftovers.append(lease)
        isolation.kill_all()
        self._runs.clear()
        return leftovers

    def _ask_to_stop(self, run: Run) -> None:
        """The job was cancelled: its handler sees should_stop and has CANCEL_GRACE to end by itself."""
        if run.grace_ends is None:
            grace = conf.current().cancel_grace.total_seconds()
            run.grace_ends = time.monotonic() + grace
            run.context.stop(CANCELLED)
            log.info(
                "job %s (%s) was cancelled; it may clean up for %g s",
                run.claimed.lease.job_id,
                run.claimed.type,
                grace,
                extra={"code": "job_cancelled"},
            )

    def _stop(self, run: Run, reason: str) -> None:
        run.context.interrupt(reason)
        if run.isolated:
            return  # its child is killed by the thread that watches it
        log.warning(
            "stopping job %s (%s): %s",
            run.claimed.lease.job_id,
            run.claimed.type,
            reason,
            extra={"code": "stopping_job"},
        )
        self._abandon(run, reason)

    def _abandon(self, run: Run, reason: str) -> None:
        """Free the slot now. The thread is interrupted; should it hang in foreign code, only it is lost."""
        with run.lock:
            if run.settled or run.abandoned:
                return
            run.abandoned = True
            if reason != TIMEOUT:
                self._given_up.add(run.claimed.lease)
            if run.thread is not None:
                run.thread_lost = True
                self._count(threads=-1)
                interrupt_thread(run.thread, reason)
        if reason == TIMEOUT:
            self._hand_over(run, Outcome(run.claimed.lease, failure=timeout_failure(run.claimed.type)))
        self._runs.pop(run.claimed.lease, None)
        self._on_free_slot()


def timeout_failure(type_name: str) -> FailureReport:
    kind = registry.find(type_name)
    limit = kind.timeout if kind else None
    return FailureReport("JobTimeout", f"The attempt took longer than the timeout of {limit}.")


def forget_connections() -> None:
    """The next job starts with fresh connections, in whatever state this one left its own."""
    for connection in connections.all(initialized_only=True):
        try:
            connection.close()
        except Exception:
            log.debug("closing a handler's connection failed", exc_info=True)
        del connections[connection.alias]
