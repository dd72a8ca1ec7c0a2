"""The worker's pulse, in a thread of its own: it goes on while jobs and claims are busy."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from jobs.exceptions import UnknownWorker, WorkerDismissed
from jobs.lifecycle.leases import Lease
from jobs.worker.executor import Executor
from jobs.worker.patience import Backoff
from jobs.worker.transport import Transport

log = logging.getLogger("jobs.worker")


class Pulse:
    def __init__(
        self,
        transport: Transport,
        executor: Executor,
        *,
        on_pending: Callable[[], None],
        on_order: Callable[[str], None],
        on_unknown: Callable[[], None],
        on_dismissed: Callable[[WorkerDismissed], None],
    ) -> None:
        self._transport = transport
        self._executor = executor
        self.wake = on_pending
        self.obey = on_order
        self._on_unknown = on_unknown
        self._on_dismissed = on_dismissed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        self._transport.prepare_thread()
        patience = Backoff(0.1, 2.0)
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                self._executor.enforce_deadlines()
                self._executor.relieve()  # also while the thread that claims waits for the queue
                pause = self._beat_or_register()
                patience.reset()
            except WorkerDismissed as dismissal:
                self._on_dismissed(dismissal)
                return
            except self._transport.troubles as error:
                log.warning(
                    "%s is out of reach (%s); running jobs go on",
                    self._transport.place,
                    str(error).strip(),
                    extra={"code": "unreachable"},
                )
                self._transport.reconnect()
                patience.wait(self._stopping)
                pause = 0.0
            except Exception:
                log.exception("the pulse stumbled; going on")
                pause = 1.0

    def _beat_or_register(self) -> float:
        try:
            return self._transport.beat(self)
        except UnknownWorker:
            self._on_unknown()
            return 0.1

    # -- what a beat sees and does -------------------------------------------------------------------------------

    def leases(self) -> list[Lease]:
        return self._executor.leases()

    def renewed(self, *, as_of: float) -> None:
        self._executor.lease_seconds = self._transport.lease_seconds
        self._executor.leases_renewed(as_of=as_of)

    def keep_only(self, alive: set[Lease], *, cancelled: Collection[Lease], as_of: float) -> None:
        self._executor.keep_only(alive, cancelled=cancelled, as_of=as_of)

    def stop_all(self) -> list[Lease]:
        return self._executor.stop_all()
