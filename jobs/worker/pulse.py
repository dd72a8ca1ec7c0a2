"""The worker's pulse, in a thread of its own: tick, heartbeat, sweep. It goes on while jobs and claims are busy.

Idle, a tick is one statement a second; it serves as the polling underneath every wake-up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import Error as DatabaseError

from jobs import conf, fleet, lifecycle, orchestrator, recovery
from jobs.exceptions import UnknownWorker
from jobs.models import Worker
from jobs.timetable import schedules
from jobs.worker.executor import Executor
from jobs.worker.patience import Backoff, drop_broken_connections, guard_transactions

log = logging.getLogger("jobs.worker")


class Pulse:
    def __init__(
        self,
        worker: Worker,
        executor: Executor,
        *,
        on_pending: Callable[[], None],
        on_order: Callable[[str], None],
        on_unknown: Callable[[], None],
    ) -> None:
        self.worker = worker
        self._executor = executor
        self._on_pending = on_pending
        self._on_order = on_order
        self._on_unknown = on_unknown
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._next_heartbeat = 0.0
        self._next_sweep = 0.0
        self._reported_busy: bool | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=5)

    def beat_now(self) -> None:
        self._next_heartbeat = 0.0

    def _run(self) -> None:
        guard_transactions()
        patience = Backoff(0.1, 2.0)
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                self._executor.enforce_deadlines()
                self._executor.relieve()  # also while the thread that claims waits for the database
                pause = self._beat_or_register()
                patience.reset()
            except DatabaseError as error:
                log.warning("the database is out of reach (%s); running jobs go on", str(error).strip())
                drop_broken_connections()
                patience.wait(self._stopping)
                pause = 0.0
            except Exception:
                log.exception("the pulse stumbled; going on")
                pause = 1.0

    def _beat_or_register(self) -> float:
        try:
            return self._beat()
        except UnknownWorker:
            self._on_unknown()
            return 0.1

    def _beat(self) -> float:
        """One round; returns the seconds until the next."""
        settings = conf.current()
        now = time.monotonic()
        busy = self._executor.running > 0
        if now >= self._next_heartbeat or busy != self._reported_busy:
            self._heartbeat(busy)
            self._next_heartbeat = now + settings.heartbeat_interval.total_seconds()
        if now >= self._next_sweep:
            recovery.sweep()
            self._next_sweep = now + settings.sweep_interval.total_seconds()
        if busy:
            self._check_leases()
        glance = recovery.glance(self.worker.pk)
        if glance.order is None:
            raise UnknownWorker(self.worker.pk)
        self._on_order(glance.order)
        if glance.next_due is not None and glance.next_due <= 0:
            orchestrator.promote_due()
        if glance.next_firing is not None and glance.next_firing <= 0:
            schedules.fire_due()
        others = [holder for holder in glance.lease_holders if holder != self.worker.pk]
        if others:
            recovery.bury_the_dead(others)
        if glance.pending:
            self._on_pending()
        until_heartbeat = max(0.01, self._next_heartbeat - now)
        tick = min(settings.tick_interval.total_seconds(), until_heartbeat)
        if glance.next_firing is not None and glance.next_firing > 0:
            tick = min(tick, max(0.01, glance.next_firing))
        if glance.next_due is not None:
            return min(tick, max(0.01, glance.next_due))
        return tick

    def _heartbeat(self, busy: bool) -> None:
        asked_at = time.monotonic()
        fleet.heartbeat(self.worker, busy=busy)
        self._reported_busy = busy
        if busy:
            lifecycle.renew(self.worker.pk, [lease.job_id for lease in self._executor.leases()])
            self._executor.leases_renewed(as_of=asked_at)

    def _check_leases(self) -> None:
        """Cancelled, recovered or hung for too long: the database no longer knows the lease, so the job stops."""
        asked_at = time.monotonic()
        alive = set(lifecycle.live_leases(self.worker.pk))
        self._executor.keep_only(alive, as_of=asked_at)
