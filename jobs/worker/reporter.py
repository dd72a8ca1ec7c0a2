"""Reports how jobs ended, in batches: one transaction for whatever has ended meanwhile (group commit).

Outcomes are kept until the queue has them; progress is only ever the latest value of each job. The worker takes no job
in the place of a failed one before its failure is written: a breaker that it would open must not come too late.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from jobs.exceptions import LeaseLost, WorkerDismissed
from jobs.lifecycle.leases import FailureReport, Lease
from jobs.lifecycle.running import ProgressReport
from jobs.logs import log_context
from jobs.worker.handling import Outcome
from jobs.worker.patience import Backoff
from jobs.worker.transport import Transport

log = logging.getLogger("jobs.worker")

LINGER_SECONDS = 0.002
"""How long the first outcome waits for company while other jobs are running."""
BATCH = 500


class Reporter:
    def __init__(
        self,
        transport: Transport,
        *,
        is_busy: Callable[[], bool],
        on_lost: Callable[[Lease], None],
        on_written: Callable[[bool], None] = lambda with_failures: None,
        on_dismissed: Callable[[WorkerDismissed], None] = lambda dismissal: None,
    ) -> None:
        self._transport = transport
        self._unreachable: tuple[type[Exception], ...] = (*transport.unreachable, WorkerDismissed)
        self._is_busy = is_busy
        self._on_lost = on_lost
        self._on_written = on_written
        self._on_dismissed = on_dismissed
        self._outcomes: deque[Outcome] = deque()
        self._batch: list[Outcome] = []
        self._failures: set[Lease] = set()
        self._progress: dict[Lease, ProgressReport] = {}
        self._something = threading.Event()
        self._stopping = False
        self._unwritten = 0
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self.completed = 0
        self.failed = 0

    def start(self) -> None:
        self._thread.start()

    def outcome(self, outcome: Outcome) -> None:
        if outcome.failure:
            self._failures.add(outcome.lease)
        self._outcomes.append(outcome)
        if not self._something.is_set():
            self._something.set()

    def progress(self, report: ProgressReport) -> None:
        is_first = not self._progress
        self._progress[report.lease] = report
        if is_first:
            self._something.set()

    @property
    def is_clear(self) -> bool:
        """Everything that was reported is in the queue's database."""
        return not self._outcomes and not self._unwritten

    @property
    def waiting(self) -> int:
        """How many outcomes are not written yet; for a moment one may count twice."""
        return len(self._outcomes) + len(self._batch)

    @property
    def waiting_failures(self) -> int:
        return len(self._failures)

    def unwritten(self) -> list[Lease]:
        """Leases whose end is known here and not yet in the database."""
        return [outcome.lease for outcome in [*self._outcomes, *self._batch]]

    def finish(self, timeout: float) -> bool:
        """Write what is left and stop; False when the queue did not take it in time."""
        self._stopping = True
        self._something.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._transport.prepare_thread()
        patience = Backoff(0.1, 5.0)
        batch = self._batch
        next_progress = 0.0
        while True:
            if not batch:
                self._something.wait(0.1 if self._progress else 0.5)
                self._something.clear()
                if self._outcomes and self._is_busy() and len(self._outcomes) < BATCH:
                    time.sleep(LINGER_SECONDS)
                self._unwritten = 1
                while self._outcomes and len(batch) < BATCH:
                    batch.append(self._outcomes[0])  # first there, then gone from here: unwritten() sees it
                    self._outcomes.popleft()
            try:
                if batch:
                    had_failures = bool(self._failures)
                    self._write_or_refuse(batch)
                    self._on_written(had_failures)
                self._unwritten = len(self._outcomes)
                if self._progress and time.monotonic() >= next_progress:
                    next_progress = time.monotonic() + self._transport.progress_seconds
                    self._write_progress()
                patience.reset()
            except WorkerDismissed as dismissal:
                batch.clear()  # nobody will ever take them
                self._outcomes.clear()
                self._failures.clear()
                self._on_dismissed(dismissal)
                return
            except self._transport.unreachable as error:
                log.warning(
                    "cannot report to %s (%s); trying again",
                    self._transport.place,
                    error,
                    extra={"code": "report_failed"},
                )
                self._transport.reconnect()
                patience.wait()
                continue
            if self._outcomes:
                self._something.set()
            elif self._stopping:
                return

    def _write_or_refuse(self, batch: list[Outcome]) -> None:
        """What cannot be written at all (a receiver of jobs_changed raises) hurts only the job that it belongs to."""
        try:
            self._write(batch)
        except self._unreachable:
            raise
        except Exception:
            log.exception("%d outcome(s) could not be written together; now one by one", len(batch))
            while batch:
                self._write_alone(batch[0])
                self._failures.discard(batch[0].lease)
                del batch[0]

    def _write_alone(self, outcome: Outcome) -> None:
        try:
            self._write([outcome])
            return
        except self._unreachable:
            raise
        except Exception as error:
            failure = FailureReport.of(error)
        try:
            self._write([Outcome(outcome.lease, failure=failure)])
        except self._unreachable:
            raise
        except Exception:
            log.exception(
                "job %s: its end could not be written; its lease will run out", outcome.lease.job_id
            )

    def _write(self, batch: list[Outcome]) -> None:
        """Each kind in its own transaction; what is written leaves the batch, so a later failure repeats nothing."""
        completed = [outcome for outcome in batch if not outcome.failure and not outcome.released]
        for lease in self._transport.complete_many(
            [(outcome.lease, outcome.result) for outcome in completed]
        ):
            self._lost(lease)
        self.completed += len(completed)
        self._drop(batch, completed)
        released = [outcome for outcome in batch if outcome.released]
        for lease in self._transport.release(
            [outcome.lease for outcome in released], reason="the worker drains"
        ):
            self._lost(lease)
        self._drop(batch, released)
        for outcome in list(batch):
            assert outcome.failure is not None
            try:
                status = self._transport.fail(outcome.lease, outcome.failure)
                with log_context(**(outcome.log_fields or {})):
                    log.warning(
                        "job %s: %s: %.500s → %s",
                        outcome.lease.job_id,
                        outcome.failure.type,
                        outcome.failure.message,
                        status,
                    )
            except LeaseLost:
                self._lost(outcome.lease)
            self.failed += 1
            self._failures.discard(outcome.lease)
            batch.remove(outcome)

    def _drop(self, batch: list[Outcome], written: list[Outcome]) -> None:
        for outcome in written:
            self._progress.pop(outcome.lease, None)
        if len(written) == len(batch):
            batch.clear()
        else:
            batch[:] = [outcome for outcome in batch if outcome not in written]

    def _write_progress(self) -> None:
        reports = list(self._progress.values())
        try:
            lost = self._transport.report_progress(reports)
        except self._unreachable:
            raise
        except Exception:
            log.exception("the progress of %d job(s) could not be written", len(reports))
            lost = []
        for report in reports:
            if self._progress.get(report.lease) is report:
                del self._progress[report.lease]
        for lease in lost:
            self._on_lost(lease)

    def _lost(self, lease: Lease) -> None:
        log.warning(
            "job %s: the lease was lost; its outcome is dropped", lease.job_id, extra={"code": "lease_lost"}
        )
