"""A worker beside the database: it calls the lifecycle itself, and its pulse serves the whole fleet.

Idle, a tick is one statement a second; it serves as the polling underneath every wake-up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError

from jobs import conf, database, fleet, lifecycle, orchestrator, overview, recovery, schema, wakeup
from jobs.exceptions import UnknownWorker
from jobs.lifecycle.leases import ClaimedJob, FailureReport, Lease
from jobs.lifecycle.running import ProgressReport
from jobs.live import channels
from jobs.models import Worker
from jobs.reconcile import reconcile
from jobs.timetable import schedules
from jobs.worker.patience import drop_broken_connections, guard_transactions, read_by_index
from jobs.worker.transport import Hands

if TYPE_CHECKING:
    from jobs.worker.context import JobContext

AWAKE_SECONDS = 0.1
PROGRESS_SECONDS = 0.5


class AtDatabase:
    place = "the database"
    unreachable: tuple[type[Exception], ...] = (OperationalError, InterfaceError)
    troubles: tuple[type[Exception], ...] = (DatabaseError,)
    awake_seconds = AWAKE_SECONDS
    progress_seconds = PROGRESS_SECONDS
    farewell_seconds = 0.0
    place_is_held_until_reported = False

    worker: Worker

    def __init__(
        self, *, name: str | None, types: Collection[str], capabilities: Collection[str], concurrency: int
    ) -> None:
        self._name = name
        self._types = types
        self._capabilities = capabilities
        self._concurrency = concurrency
        self._lease_seconds = conf.current().claim_duration.total_seconds()
        self._next_heartbeat = 0.0
        self._next_sweep = 0.0
        self._reported_busy: bool | None = None

    @property
    def name(self) -> str:
        return self.worker.name

    @property
    def types(self) -> list[str]:
        return list(self.worker.job_types)

    @property
    def lease_seconds(self) -> float:
        return self._lease_seconds

    # -- the worker itself ---------------------------------------------------------------------------------------

    def enter(self) -> None:
        self.worker = self._register()
        schedules.sync_declared()
        reconcile()

    def not_ready(self) -> str:
        absent = schema.missing()
        return f"the database is older than this code: it lacks {', '.join(absent)}" if absent else ""

    def may_come_back(self) -> bool:
        return database.is_postgres()  # a file is there or not; a server may come back

    def _register(self, *, lock_key: int | None = None) -> Worker:
        return fleet.register(
            name=self._name,
            job_types=self._types,
            capabilities=self._capabilities,
            concurrency=self._concurrency,
            lock_key=lock_key,
        )

    def register_again(self) -> None:
        """Somebody deleted this worker's record: start over under a new one; the old leases are gone with it."""
        self.worker = self._register(lock_key=self.worker.lock_key)

    def listen(self, on_hint: Callable[[], None]) -> None:
        self._ear = wakeup.make_ear(
            on_hint,
            lock_key=self.worker.lock_key,
            on_lock=lambda: fleet.lock_regained(self.worker),
            crew=(*self.worker.job_types, *self.worker.capabilities),
        )
        self._ear.start()

    def stop_listening(self) -> None:
        self._ear.stop()

    def longest_sleep(self, *, ends_by_itself: bool) -> float:
        """The pulse looks for pending jobs; only a worker that is to end by itself must look whether it may."""
        settings = conf.current()
        return (settings.tick_interval if ends_by_itself else settings.heartbeat_interval).total_seconds()

    def leave(self) -> None:
        fleet.say_goodbye(self.worker)

    def close(self) -> None:
        channels.flush()

    # -- its threads -----------------------------------------------------------------------------------------------

    def prepare_thread(self) -> None:
        guard_transactions()

    def prepare_claims(self) -> None:
        read_by_index()

    def reconnect(self) -> None:
        drop_broken_connections()

    # -- its pulse ---------------------------------------------------------------------------------------------------

    def beat_soon(self) -> None:
        self._next_heartbeat = 0.0

    def beat(self, hands: Hands) -> float:
        settings = conf.current()
        now = time.monotonic()
        busy = bool(hands.leases())
        if now >= self._next_heartbeat or busy != self._reported_busy:
            self._heartbeat(hands, busy)
            self._next_heartbeat = now + settings.heartbeat_interval.total_seconds()
        if now >= self._next_sweep:
            recovery.sweep()
            self._next_sweep = now + settings.sweep_interval.total_seconds()
        if busy:
            self._check_leases(hands)
        glance = recovery.glance(self.worker.pk)
        if glance.order is None:
            raise UnknownWorker(self.worker.pk)
        hands.obey(glance.order)
        recovery.tick(glance, [holder for holder in glance.lease_holders if holder != self.worker.pk])
        if glance.pending:
            hands.wake()
        until_heartbeat = max(0.01, self._next_heartbeat - now)
        return glance.until_next(min(settings.tick_interval.total_seconds(), until_heartbeat))

    def _heartbeat(self, hands: Hands, busy: bool) -> None:
        asked_at = time.monotonic()
        fleet.heartbeat(self.worker, busy=busy)
        self._reported_busy = busy
        if busy:
            lifecycle.renew(self.worker.pk, [lease.job_id for lease in hands.leases()])
            hands.renewed(as_of=asked_at)

    def _check_leases(self, hands: Hands) -> None:
        """Cancelled, recovered or hung for too long: the database no longer knows the lease, so the job stops."""
        asked_at = time.monotonic()
        alive = set(lifecycle.live_leases(self.worker.pk))
        gone = set(hands.leases()) - alive
        hands.keep_only(alive, cancelled=lifecycle.cancelled_among(gone), as_of=asked_at)

    # -- its jobs ----------------------------------------------------------------------------------------------------

    def claim(self, places: int, running: Mapping[str, int]) -> tuple[list[ClaimedJob], float]:
        asked_at = time.monotonic()
        jobs = lifecycle.claim(self.worker, places, running=running)
        self._ear.looked(asked=places, got=len(jobs), at=asked_at)
        return jobs, asked_at

    def unheard(self) -> set[Lease]:
        return set(lifecycle.live_leases(self.worker.pk))

    def complete_many(self, done: Sequence[tuple[Lease, Any]]) -> Collection[Lease]:
        return lifecycle.complete_many(done)

    def release(self, leases: Collection[Lease], *, reason: str) -> Collection[Lease]:
        return lifecycle.release(leases, reason=reason)

    def report_progress(self, reports: Sequence[ProgressReport]) -> Collection[Lease]:
        return lifecycle.report_progress(reports)

    def fail(self, lease: Lease, failure: FailureReport) -> str:
        return lifecycle.fail(lease, failure)

    def is_empty(self) -> bool:
        return overview.is_empty(self.worker.job_types)

    def has_due(self) -> bool:
        due = orchestrator.has_due(self.worker.job_types)
        if due:
            orchestrator.promote_due()
        return due

    def site_of(self, context: JobContext) -> None:
        return None
