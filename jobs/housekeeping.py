"""What local workers do every second and every minute, done by the web process where there is none of them.

Remote workers cannot promote due jobs or end leases that have run out. A site whose workers are all remote lives by
this: it is done while their requests are answered, and without those requests nobody would run the jobs anyway.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta

from jobs import conf, database, orchestrator, recovery
from jobs.models import Worker, WorkerKind
from jobs.reconcile import reconcile
from jobs.timetable import schedules

log = logging.getLogger("jobs.housekeeping")


class _Stopwatch:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = float("-inf")

    def has_passed(self, interval: timedelta) -> bool:
        """True for one thread per interval."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return False
            self._next = now + interval.total_seconds()
            return True


_tick, _sweep, _first_time = _Stopwatch(), _Stopwatch(), _Stopwatch()


def keep_house() -> None:
    """At most once per tick and process; nothing while a local worker is alive."""
    settings = conf.current()
    if not _tick.has_passed(settings.tick_interval):
        return
    local = Worker.objects.filter(kind=WorkerKind.LOCAL).online()
    if local.heard_within(settings.offline_threshold).exists():
        return
    if _first_time.has_passed(timedelta.max):
        schedules.sync_declared()
        reconcile_beside()
    glance = recovery.glance()
    if glance.next_due is not None and glance.next_due <= 0:
        orchestrator.promote_due()
    if glance.next_firing is not None and glance.next_firing <= 0:
        schedules.fire_due()
    recovery.bury_the_dead(glance.lease_holders)
    if _sweep.has_passed(settings.sweep_interval):
        recovery.sweep()


def reconcile_beside() -> None:
    """What a local worker does when it starts; it may take minutes, and nobody waits for it."""
    threading.Thread(target=_reconcile, name="reconcile", daemon=True).start()


def _reconcile() -> None:
    try:
        reconcile()
    except Exception:
        log.exception(
            "the records could not be compared with what exists; `manage.py reconcile` does it again"
        )
    finally:
        database.connection().close()
