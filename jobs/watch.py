"""The watch: a daemon thread of every web process. The site shows that it is there, and does what workers cannot.

Where a local worker is alive, that is little: the site gives a sign of life (SitePresence), tells when the last worker
has died, and delivers alerts that no worker takes. Where all workers are remote, it also does what local ones do every
second and every minute. It begins with the first request that a server hands to Django, WSGI or ASGI, in the process
that serves it; `start()` in wsgi.py and asgi.py begins without waiting for one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from django.core.signals import request_started
from django.db import Error as DatabaseError
from django.db import connections
from django.dispatch import receiver

from jobs import conf, database, fleet, recovery, schema
from jobs.alerts.at_site import Courier
from jobs.models import Worker, WorkerKind
from jobs.models.site_presence import absence, show_presence
from jobs.reconcile import reconcile
from jobs.timetable import schedules
from jobs.worker.patience import Backoff, guard_transactions

log = logging.getLogger("jobs.watch")

THREAD = "jobs-watch"
CALM = 5.0
"""Seconds between two looks while local workers do the work."""

_started: dict[int, object] = {}
"""By process: a child of a server that forks after it has loaded the site has a thread of its own."""


class _AtRest:
    """A server may fork while its master keeps watch: it waits until the thread rests, so that no child begins with a
    lock that nobody will ever release."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._forking = threading.local()

    def before_fork(self) -> None:
        self._forking.waited = self.lock.acquire(timeout=2.0)

    def after_fork(self) -> None:
        if self._forking.waited:
            self.lock.release()

    def after_fork_in_child(self) -> None:
        self.lock = threading.Lock()


_at_rest = _AtRest()


def start() -> None:
    """Keep watch in this process, unless it does so already or is a test's."""
    mine = object()
    if os.getpid() in _started or _is_test() or _started.setdefault(os.getpid(), mine) is not mine:
        return
    if len(_started) == 1:
        os.register_at_fork(
            before=_at_rest.before_fork,
            after_in_parent=_at_rest.after_fork,
            after_in_child=_at_rest.after_fork_in_child,
        )
    threading.Thread(target=Watch().run, name=THREAD, daemon=True).start()


def _is_test() -> bool:
    """A live server in the process of a test run: its database comes and goes with the tests."""
    from django.core import mail

    return hasattr(mail, "outbox")  # which Django's setup_test_environment() makes


@receiver(request_started)
def _on_request(sender: type, **kwargs: Any) -> None:
    """From a server, not from a test client that somebody uses in a command."""
    if os.getpid() in _started:
        return
    from django.core.handlers.asgi import ASGIHandler
    from django.core.handlers.wsgi import WSGIHandler

    if issubclass(sender, WSGIHandler | ASGIHandler):
        start()


class Watch:
    def __init__(self) -> None:
        self._courier = Courier()
        self._is_arriving = True
        self._has_stood_in = False
        self._next_sweep = 0.0

    def run(self) -> None:
        guard_transactions()
        backoff, rest = Backoff(1.0, 30.0), threading.Event()
        while True:
            try:
                with _at_rest.lock:
                    pause = self.look()
                    if pause >= CALM:
                        connections.close_all()
                    else:
                        database.give_back()
            except Exception as error:
                if not isinstance(error, DatabaseError):
                    log.exception("the watch stumbled; it goes on")
                elif not self._is_arriving:
                    log.warning("the watch cannot use the database (%s); it tries again", error)
                self._is_arriving = True
                connections.close_all()
                backoff.wait()
            else:
                backoff.reset()
                rest.wait(pause)

    def look(self) -> float:
        """Do once what is to be done now. Returns the seconds until the next time."""
        if schema.missing():
            return CALM
        show_presence(arriving=self._is_arriving)
        self._is_arriving = False
        alive, gone = fleet.roll_call("job_types")
        if any(worker.kind == WorkerKind.LOCAL for worker in alive):
            pause = self._leave_it_to(alive)
        else:
            pause = self._stand_in(alive, gone)
        self._courier.deliver_what_waits(alive)
        return pause

    def _leave_it_to(self, alive: Sequence[Worker]) -> float:
        """The living sweep. If none was heard lately, the last one may have died on another host, which its session
        lock proves sooner than its silence."""
        local = Worker.objects.online().filter(kind=WorkerKind.LOCAL)
        if not local.heard_within(2 * conf.current().heartbeat_interval).exists():
            recovery.bury_the_dead([worker.pk for worker in alive])
        return min(CALM, absence().total_seconds() / 3)

    def _stand_in(self, alive: Sequence[Worker], gone: Sequence[Worker]) -> float:
        """No local worker lives."""
        settings = conf.current()
        if alive and not self._has_stood_in:
            self._has_stood_in = True
            schedules.sync_declared()
            reconcile_beside()
        if gone:
            recovery.bury_the_dead([worker.pk for worker in gone])
            recovery.under_sweep_lock(recovery.mark_offline)
        glance = recovery.glance()
        # With nobody to run its job a tick is missed, and the schedule says what becomes of missed ones.
        recovery.tick(glance, glance.lease_holders, fires=bool(alive))
        if time.monotonic() >= self._next_sweep:
            recovery.sweep()
            self._next_sweep = time.monotonic() + settings.sweep_interval.total_seconds()
        return glance.until_next(settings.tick_interval.total_seconds())


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
