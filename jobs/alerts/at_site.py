"""Alerts delivered by the site itself, when no worker does."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection
from datetime import timedelta

from django.db import connections
from django.db.models.functions import Now

from jobs import conf, database, lifecycle, processes
from jobs.alerts.wording import ABOUT_ALERTS
from jobs.exceptions import LeaseLost
from jobs.lifecycle import ClaimedJob
from jobs.models import Job, Worker, WorkerKind, WorkerStatus
from jobs.ulid import new_ulid
from jobs.worker.context import JobContext
from jobs.worker.handling import run_handler

log = logging.getLogger("jobs.alerts")

INTERRUPTED = "the site was interrupted while it delivered"
LATE = timedelta(seconds=30)
"""Living workers have this long to take an alert; they may be busy, or handle other types only."""


class Courier:
    """Delivers in a thread beside the watch: an endpoint that hangs must not hold it up. One for each process."""

    def __init__(self) -> None:
        self._name = f"site {processes.this_host().name} {new_ulid()}"
        self._thread: threading.Thread | None = None

    def deliver_what_waits(self, alive: Collection[Worker]) -> None:
        """Begin, if there is an alert that no worker takes."""
        if not conf.current().alert_webhook_url or (self._thread and self._thread.is_alive()):
            return
        takers = any(ABOUT_ALERTS in w.job_types and not w.disabled and not w.draining for w in alive)
        waiting = Job.objects.pending().filter(type=ABOUT_ALERTS)
        if takers:
            waiting = waiting.filter(run_at__lt=database.now_minus(LATE))
        if waiting.exists():
            self._thread = threading.Thread(target=self._run, name="jobs-alerts", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.deliver()
        except Exception:
            log.exception("the site could not deliver an alert; it tries again")
        finally:
            connections.close_all()

    def deliver(self) -> None:
        """Claim one alert after the other, as a worker would, and post it."""
        site = self._register()
        try:
            while claimed := lifecycle.claim(site, 1):
                _deliver_one(claimed[0])
        finally:
            lifecycle.recover_lost(site.pk, INTERRUPTED)
            site.delete()

    def _register(self) -> Worker:
        """A lease needs a holder. This one is not counted among the workers, and is there only meanwhile."""
        pid = os.getpid()
        site, _ = Worker.objects.update_or_create(
            name=self._name,
            defaults={
                "kind": WorkerKind.SITE,
                "status": WorkerStatus.BUSY,
                "job_types": [ABOUT_ALERTS],
                "host": str(processes.this_host()),
                "pid": pid,
                "process_start": processes.start_mark(pid) or "",
                "last_heartbeat": Now(),
            },
        )
        lifecycle.recover_lost(site.pk, INTERRUPTED)  # by a database that went away
        return site


def _deliver_one(claimed: ClaimedJob) -> None:
    outcome = run_handler(JobContext(claimed, report=lambda report: None))
    try:
        if outcome is None:
            return
        if outcome.failure:
            log.warning("alert %s: %s", claimed.lease.job_id, outcome.failure.message)
            lifecycle.fail(claimed.lease, outcome.failure)
        else:
            lifecycle.complete(claimed.lease, outcome.result)
    except LeaseLost:
        log.warning("alert %s took longer than its lease", claimed.lease.job_id)
