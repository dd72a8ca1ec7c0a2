"""The worker's main loop: claim as many jobs as there are free slots, hand them over, wait for a reason to go on."""

from __future__ import annotations

import logging
import signal
import threading
import time
from types import FrameType

from jobs import conf
from jobs.exceptions import WorkerDisabled, WorkerDismissed, WorkerOffline, WorkerRefused
from jobs.lifecycle import Lease
from jobs.worker.at_database import AtDatabase
from jobs.worker.bell import Bell
from jobs.worker.executor import Executor
from jobs.worker.options import Options
from jobs.worker.patience import Backoff
from jobs.worker.pulse import Pulse
from jobs.worker.reporter import Reporter
from jobs.worker.transport import Transport

log = logging.getLogger("jobs.worker")

AT_ONCE = signal.SIGUSR1
"""What a supervisor sends its workers for a second signal."""
_FIRST_LOOK = 0.005
_LINGER = 0.003
"""How long a worker with a few free slots waits for more before it claims, when jobs end quickly."""


class WorkerLoop:
    def __init__(self, options: Options, transport: Transport | None = None) -> None:
        self.options = options
        self._transport = transport or AtDatabase(
            name=options.name,
            types=options.handled_types(),
            capabilities=options.capabilities,
            concurrency=options.slots,
        )
        self._bell = Bell()
        self._stop_requested = 0
        self._disabled = False
        self._dismissal: WorkerDismissed | None = None
        self._answer_lost = False
        self._awake_until = 0.0
        self._next_look = _FIRST_LOOK
        self._reporter = Reporter(
            self._transport,
            is_busy=lambda: self._executor.running > 0,
            on_lost=lambda lease: self._transport.beat_soon(),
            on_written=self._place_given_back,
            on_dismissed=self._dismiss,
        )
        self._executor = Executor(
            options.slots,
            lease_seconds=self._transport.lease_seconds,
            on_progress=self._reporter.progress,
            on_outcome=self._reporter.outcome,
            on_free_slot=self._bell.ring,
            site_of=self._transport.site_of,
        )

    # -- life ----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until told to stop. Returns the exit code; raises WorkerRefused when it may not work here at all."""
        self._install_signals()
        self._transport.prepare_thread()
        try:
            if not self._enter():
                return 0
            self._work()
        finally:
            self._transport.close()
        if self._dismissal is not None:
            raise self._dismissal
        return 0

    def _work(self) -> None:
        self._executor.lease_seconds = self._transport.lease_seconds
        self._executor.worker_name = self._transport.name
        self._pulse = Pulse(
            self._transport,
            self._executor,
            on_pending=self._bell.ring,
            on_order=self._obey,
            on_unknown=self._register_again,
            on_dismissed=self._dismiss,
        )
        self._reporter.start()
        self._pulse.start()
        self._transport.listen(self._bell.ring)
        log.info(
            "worker %s is ready: %d slot(s), types %s",
            self._transport.name,
            self._executor.concurrency,
            ", ".join(self._transport.types) or "none",
        )
        try:
            self._transport.prepare_claims()
            self._claim_until_stopped()
        finally:
            self._shut_down()

    def _enter(self) -> bool:
        """Be known to the queue, as soon as it can be reached. False: told to stop before that."""
        patience = Backoff(0.1, 5.0)
        while not self._stop_requested:
            try:
                if lacks := self._transport.not_ready():
                    self._wait_for_it(lacks)
                    patience.wait()
                    continue
                self._transport.enter()
                return True
            except self._transport.unreachable as error:
                if not self._transport.may_come_back():
                    raise
                log.warning(
                    "%s is out of reach (%s); trying again",
                    self._transport.place,
                    str(error).strip(),
                    extra={"code": "unreachable"},
                )
                self._transport.reconnect()
                patience.wait()
        return False

    def _wait_for_it(self, lacks: str) -> None:
        """A worker of the next release may be there before its tables; those of the last one do the work meanwhile."""
        if self.options.ends_by_itself:
            raise WorkerRefused(f"{lacks}; run `manage.py migrate` first.", code="not_migrated")
        log.warning("%s; waiting until `manage.py migrate` was run", lacks, extra={"code": "not_migrated"})

    def _register_again(self) -> None:
        log.warning("worker %s is no longer registered; registering again", self._transport.name)
        self._transport.register_again()

    # -- claiming ------------------------------------------------------------------------------------------------

    def _claim_until_stopped(self) -> None:
        patience = Backoff(0.1, 5.0)
        while not self._stop_requested:
            self._bell.clear()
            was_idle = self._is_idle()
            try:
                self._give_back_unheard()
                claimed = self._claim()
                patience.reset()
            except WorkerDismissed as dismissal:
                self._dismiss(dismissal)
                break
            except (WorkerDisabled, WorkerOffline) as refusal:
                self._rest(refusal)
                continue
            except WorkerRefused as refusal:
                log.warning("%s", refusal, extra={"code": refusal.code})
                self._bell.wait(1.0)
                continue
            except self._transport.troubles as error:
                log.warning(
                    "cannot claim (%s); trying again", str(error).strip(), extra={"code": "claim_failed"}
                )
                self._answer_lost = True
                self._transport.reconnect()
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
            elif was_idle and self._is_done():
                break
            else:
                self._wait_for_work()

    def _claim(self) -> bool:
        free = self._free_places()
        if free <= 0:
            return False
        jobs, asked_at = self._transport.claim(free, self._executor.running_by_type())
        self._executor.start(jobs, claimed_at=asked_at)
        return bool(jobs)

    def _free_places(self) -> int:
        """The place of a job that has failed is free when everybody knows of the failure."""
        holds_all = self._transport.place_is_held_until_reported
        return self._executor.free - (
            self._reporter.waiting if holds_all else self._reporter.waiting_failures
        )

    def _place_given_back(self, after_failures: bool) -> None:
        if after_failures or self._transport.place_is_held_until_reported:
            self._bell.ring()

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
            self._transport.release(unheard, reason="the answer to its claim was lost")
        self._answer_lost = False

    def _unheard(self) -> set[Lease]:
        held = self._transport.unheard()
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
        if self._free_places() <= 0:
            self._bell.wait(0.002 if self._executor.relieve() else 1.0)
            return
        self._executor.relieve()
        if time.monotonic() < self._awake_until:
            self._bell.wait(self._next_look)
            self._next_look *= 2
        elif self._bell.wait(self._longest_sleep()):
            self._stay_awake()

    def _longest_sleep(self) -> float:
        return self._transport.longest_sleep(ends_by_itself=self.options.ends_by_itself)

    def _stay_awake(self) -> None:
        self._awake_until = time.monotonic() + self._transport.awake_seconds
        self._next_look = _FIRST_LOOK

    def _rest(self, refusal: WorkerRefused) -> None:
        if isinstance(refusal, WorkerOffline):
            self._transport.beat_soon()
            self._bell.wait(0.2)
            return
        if not self._disabled:
            log.warning("%s", refusal, extra={"code": refusal.code})
            self._disabled = True
        self._bell.wait(1.0)

    def _is_idle(self) -> bool:
        """Nothing runs here, and the end of whatever ran is written, with what follows from it."""
        return not self._executor.running and self._reporter.is_clear

    def _is_done(self) -> bool:
        """Asked after a claim that an idle worker made and that gave it nothing."""
        if self.options.once or self.options.drain:
            return not self._transport.has_due()
        return self.options.until_empty and self._transport.is_empty()

    # -- orders --------------------------------------------------------------------------------------------------

    def _dismiss(self, dismissal: WorkerDismissed) -> None:
        """From whichever thread heard it first: whatever runs is stopped at once, and the process ends."""
        if self._dismissal is None:
            self._dismissal = dismissal
        self._stop_requested = 2
        self._executor.stop_all()
        self._bell.ring()

    def _obey(self, order: str) -> None:
        if order == "draining" and not self._stop_requested:
            log.info("asked to drain", extra={"code": "asked_to_drain"})
            self._stop_requested = 1
            self._bell.ring()
        elif order == "" and self._disabled:
            log.info("worker %s is enabled again", self._transport.name)
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
        if self._stop_requested and self._dismissal is None:
            self._executor.ask_to_drain()
            log.info("stopping: %d job(s) may finish", self._executor.running, extra={"code": "draining"})
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
        self._transport.stop_listening()
        written = self._reporter.finish(timeout=0.1 if self._dismissal else 10)
        if self._dismissal is None:
            self._say_goodbye(leftovers)
        self._executor.settle(self._transport.farewell_seconds)
        log.info(
            "worker %s stopped: %d completed, %d failed%s",
            self._transport.name,
            self._reporter.completed,
            self._reporter.failed,
            "" if written else "; some outcomes could not be written",
            extra={"code": "stopped"},
        )

    def _say_goodbye(self, leftovers: list[Lease]) -> None:
        try:
            self._transport.release(leftovers, reason="the worker stopped before the job had ended")
            self._transport.leave()
        except WorkerDismissed as dismissal:
            self._dismissal = dismissal
        except self._transport.troubles as error:
            log.warning(
                "could not say goodbye (%s); the jobs are recovered by the others", str(error).strip()
            )
