"""The worker's main loop: claim as many jobs as there are free slots, hand them over, wait for a reason to go on."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from types import FrameType

from django.db import Error as DatabaseError
from django.db import OperationalError

from jobs import conf, database, fleet, lifecycle, overview, registry, schema, wakeup
from jobs.exceptions import WorkerDisabled, WorkerOffline, WorkerRefused
from jobs.lifecycle import Lease
from jobs.models import Worker
from jobs.reconcile import reconcile
from jobs.worker.bell import Bell
from jobs.worker.executor import Executor
from jobs.worker.patience import Backoff, drop_broken_connections, guard_transactions, read_by_index
from jobs.worker.pulse import Pulse
from jobs.worker.reporter import Reporter

log = logging.getLogger("jobs.worker")

AWAKE_SECONDS = 0.1
"""After a wake-up a worker keeps looking for this long, so that hints may be coalesced without a loss."""
AT_ONCE = signal.SIGUSR1
"""What a supervisor sends its workers for a second signal."""
_FIRST_LOOK = 0.005
_LINGER = 0.003
"""How long a worker with a few free slots waits for more before it claims, when jobs end quickly."""


@dataclass(frozen=True)
class Options:
    concurrency: int = 8
    name: str | None = None
    types: Collection[str] | None = None
    exclude_types: Collection[str] = ()
    capabilities: Collection[str] = ()
    once: bool = False
    """Run one job (or find none) and exit."""
    drain: bool = False
    """Exit when nothing can be claimed any more."""
    until_empty: bool = False
    """Exit when nothing is pending, due or running anywhere."""
    supervised: bool = False
    """Forked by a supervisor, which alone tells a first signal from a second."""

    @property
    def ends_by_itself(self) -> bool:
        return self.once or self.drain or self.until_empty

    def handled_types(self) -> list[str]:
        names = {kind.name for kind in registry.all_types()} if self.types is None else set(self.types)
        return sorted(names - set(self.exclude_types))


class WorkerLoop:
    def __init__(self, options: Options) -> None:
        self.options = options
        self._bell = Bell()
        self._stop_requested = 0
        self._disabled = False
        self._answer_lost = False
        self._awake_until = 0.0
        self._next_look = _FIRST_LOOK
        self._reporter = Reporter(
            is_busy=lambda: self._executor.running > 0, on_lost=lambda lease: self._pulse_now()
        )
        self._executor = Executor(
            1 if options.once else options.concurrency,
            lease_seconds=conf.current().claim_duration.total_seconds(),
            on_progress=self._reporter.progress,
            on_outcome=self._reporter.outcome,
            on_free_slot=self._bell.ring,
            worker_name=options.name or "",
        )

    # -- life ----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until told to stop. Returns the exit code."""
        self._install_signals()
        guard_transactions()
        if not self._enter():
            return 0
        self._pulse = Pulse(
            self.worker,
            self._executor,
            on_pending=self._bell.ring,
            on_order=self._obey,
            on_unknown=self._register_again,
        )
        self._ear = wakeup.make_ear(
            self._bell.ring, lock_key=self.worker.lock_key, on_lock=lambda: fleet.lock_regained(self.worker)
        )
        self._reporter.start()
        self._pulse.start()
        if conf.current().session_features:
            self._ear.start()
        log.info(
            "worker %s is ready: %d slot(s), types %s",
            self.worker.name,
            self._executor.concurrency,
            ", ".join(self.worker.job_types) or "none",
        )
        try:
            read_by_index()
            self._claim_until_stopped()
        finally:
            self._shut_down()
        return 0

    def _enter(self) -> bool:
        """Register and reconcile, as soon as the database can be reached. False: told to stop before that."""
        patience = Backoff(0.1, 5.0)
        while not self._stop_requested:
            try:
                if absent := schema.missing():
                    self._await_migrations(absent)
                    patience.wait()
                    continue
                self.worker = self._register()
                reconcile()
                return True
            except OperationalError as error:
                if not database.is_postgres():
                    raise  # a file is there or not; a server may come back
                log.warning("the database is out of reach (%s); trying again", str(error).strip())
                drop_broken_connections()
                patience.wait()
        return False

    def _await_migrations(self, absent: list[str]) -> None:
        """A worker of the next release may be there before its tables; those of the last one do the work meanwhile."""
        lacks = f"the database is older than this code: it lacks {', '.join(absent)}"
        if self.options.ends_by_itself:
            raise WorkerRefused(f"{lacks}; run `manage.py migrate` first.")
        log.warning("%s; waiting until `manage.py migrate` was run", lacks)

    def _register(self, *, lock_key: int | None = None) -> Worker:
        return fleet.register(
            name=self.options.name,
            job_types=self.options.handled_types(),
            capabilities=self.options.capabilities,
            concurrency=self._executor.concurrency,
            lock_key=lock_key,
        )

    def _register_again(self) -> None:
        """Somebody deleted this worker's record: start over under a new one; the old leases are gone with it."""
        log.warning("worker %s is no longer registered; registering again", self.worker.name)
        self.worker = self._pulse.worker = self._register(lock_key=self.worker.lock_key)

    # -- claiming ------------------------------------------------------------------------------------------------

    def _claim_until_stopped(self) -> None:
        patience = Backoff(0.1, 5.0)
        while not self._stop_requested:
            self._bell.clear()
            try:
                self._give_back_unheard()
                claimed = self._claim()
                patience.reset()
            except (WorkerDisabled, WorkerOffline) as refusal:
                self._rest(refusal)
                continue
            except WorkerRefused as refusal:
                log.warning("%s", refusal)
                self._bell.wait(1.0)
                continue
            except DatabaseError as error:
                log.warning("cannot claim (%s); trying again", str(error).strip())
                self._answer_lost = True
                drop_broken_connections()
                patience.wait()
                continue
            except Exception:
                log.exception("the claim failed; trying again")
                patience.wait()
                continue
            if claimed:
                if self.options.once:
                    break
                self._after_claim()
            elif self._is_done():
                break
            else:
                self._wait_for_work()

    def _claim(self) -> bool:
        free = self._executor.free
        if free <= 0:
            return False
        asked_at = time.monotonic()
        jobs = lifecycle.claim(self.worker, free, running=self._executor.running_by_type())
        self._executor.start(jobs, claimed_at=asked_at)
        return bool(jobs)

    def _give_back_unheard(self) -> None:
        """A claim may have been committed although its answer was lost: nobody runs those jobs.

        This thread is the only one that claims, so what the database holds and nobody here knows is such a job.
        Looked at twice, since an outcome may be on its way from a slot to the reporter.
        """
        if not self._answer_lost:
            return
        unheard = self._unheard()
        if unheard:
            time.sleep(0.1)
            unheard &= self._unheard()
            log.warning("giving %d job(s) back: their claim was never answered", len(unheard))
            lifecycle.release(unheard, reason="the answer to its claim was lost")
        self._answer_lost = False

    def _unheard(self) -> set[Lease]:
        held = set(lifecycle.live_leases(self.worker.pk))
        return held.difference(
            self._executor.leases(), self._reporter.unwritten(), self._executor.gave_up(held)
        )

    def _after_claim(self) -> None:
        """Let short jobs end before asking for more, and give long ones a thread each."""
        self._stay_awake()
        deadline = time.monotonic() + _LINGER
        while self._executor.free * 2 < self._executor.concurrency and time.monotonic() < deadline:
            time.sleep(0.001)
            self._executor.relieve()

    def _wait_for_work(self) -> None:
        """Full: until a slot is free. Nothing to claim: look again soon, later and later, then sleep until woken."""
        if self._executor.free <= 0:
            self._bell.wait(0.002 if self._executor.relieve() else 1.0)
            return
        self._executor.relieve()
        if time.monotonic() < self._awake_until:
            self._bell.wait(self._next_look)
            self._next_look *= 2
        elif self._bell.wait(self._longest_sleep()):
            self._stay_awake()

    def _longest_sleep(self) -> float:
        """The pulse looks for pending jobs; only a worker that is to end by itself must look whether it may."""
        settings = conf.current()
        longest = settings.tick_interval if self.options.ends_by_itself else settings.heartbeat_interval
        return longest.total_seconds()

    def _stay_awake(self) -> None:
        self._awake_until = time.monotonic() + AWAKE_SECONDS
        self._next_look = _FIRST_LOOK

    def _rest(self, refusal: WorkerRefused) -> None:
        if isinstance(refusal, WorkerOffline):
            self._pulse_now()
            self._bell.wait(0.2)
            return
        if not self._disabled:
            log.warning("%s", refusal)
            self._disabled = True
        self._bell.wait(1.0)

    def _is_done(self) -> bool:
        if self._executor.running or not self._reporter.is_clear:
            return False
        if self.options.once or self.options.drain:
            return True
        return self.options.until_empty and overview.is_empty(self.worker.job_types)

    # -- orders --------------------------------------------------------------------------------------------------

    def _pulse_now(self) -> None:
        self._pulse.beat_now()

    def _obey(self, order: str) -> None:
        if order == "draining" and not self._stop_requested:
            log.info("asked to drain")
            self._stop_requested = 1
            self._bell.ring()
        elif order == "" and self._disabled:
            log.info("worker %s is enabled again", self.worker.name)
            self._disabled = False
            self._bell.ring()

    def _install_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._on_signal)
            signal.signal(AT_ONCE, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == AT_ONCE:
            self._stop_requested = 2
        elif not (self.options.supervised and self._stop_requested):
            self._stop_requested += 1
        self._bell.ring()

    # -- the end -------------------------------------------------------------------------------------------------

    def _shut_down(self) -> None:
        """Let running jobs finish within the drain timeout (a second signal cuts it short), release the rest, leave."""
        if self._stop_requested:
            self._executor.ask_to_drain()
            log.info("stopping: %d job(s) may finish", self._executor.running)
        deadline = time.monotonic() + conf.current().drain_timeout.total_seconds()
        while self._executor.running and self._stop_requested < 2:
            self._executor.relieve()
            if self._stop_requested and time.monotonic() > deadline:
                break
            self._bell.wait(0.05)
            self._bell.clear()
        leftovers = self._executor.stop_everything()
        if leftovers:
            log.warning("giving %d unfinished job(s) back to the queue", len(leftovers))
        self._pulse.stop()
        self._ear.stop()
        written = self._reporter.finish(timeout=10)
        try:
            lifecycle.release(leftovers, reason="the worker stopped before the job had ended")
            fleet.say_goodbye(self.worker)
        except DatabaseError as error:
            log.warning(
                "could not say goodbye (%s); the jobs are recovered by the others", str(error).strip()
            )
        log.info(
            "worker %s stopped: %d completed, %d failed%s",
            self.worker.name,
            self._reporter.completed,
            self._reporter.failed,
            "" if written else "; some outcomes could not be written",
        )
