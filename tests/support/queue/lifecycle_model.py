"""What SPEC 1.2 and 1.8 say about the life of jobs, once more in plain Python, without a database or a clock.

The state machine in test_lifecycle_machine.py does everything twice, here and in the queue, and compares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

ACTIVE = ("waiting", "pending", "processing")
ENDED = ("completed", "failed", "cancelled")


@dataclass
class Twin:
    """A job as it should be."""

    id: str
    type: str
    max_attempts: int
    key: str | None = None
    needs: dict[str, bool] = field(default_factory=dict)
    """Each prerequisite, and whether it is optional."""
    status: str = "pending"
    due: bool = True
    blocked: bool = False
    token: int = 0
    attempts: int = 0
    worker: str | None = None
    expired: bool = False
    because: str = ""
    """Whose end cancelled it."""
    causes: frozenset[str] = frozenset()
    """Where several ends could have: any of them."""
    outcomes: dict[int, str] = field(default_factory=dict)
    """How the attempt with this token ended."""

    def is_held_with(self, token: int, worker: str) -> bool:
        """By a lease that lives: one that has expired is dead before it is swept."""
        held = (self.status, self.token, self.worker) == ("processing", token, worker)
        return held and not self.expired


class Refused(Exception):
    """The model expects the queue to refuse."""


class Model:
    def __init__(self) -> None:
        self.jobs: dict[str, Twin] = {}

    # -- finding -----------------------------------------------------------------------------------------------------

    def holder_of(self, key: str | None) -> Twin | None:
        holders = (job for job in self.jobs.values() if job.key == key and job.status in ACTIVE)
        return next(holders, None) if key is not None else None

    def leased_by(self, worker: str) -> list[Twin]:
        return [job for job in self.jobs.values() if job.worker == worker]

    def expired(self, types: Collection[str] | None = None) -> list[Twin]:
        return [job for job in self.jobs.values() if job.expired and (types is None or job.type in types)]

    def fatal(self, needs: dict[str, bool]) -> frozenset[str]:
        """The jobs at the root of the trouble."""
        bad = (self.jobs[id] for id, optional in needs.items() if not optional)
        return frozenset(job.because or job.id for job in bad if job.status in ("failed", "cancelled"))

    def is_met(self, needs: dict[str, bool]) -> bool:
        return all(
            self.jobs[id].status == "completed" or (optional and self.jobs[id].status in ENDED)
            for id, optional in needs.items()
        )

    # -- enqueue, claim ----------------------------------------------------------------------------------------------

    def add(self, job: Twin) -> None:
        job.blocked = not self.is_met(job.needs)
        job.status = "waiting" if job.blocked or not job.due else "pending"
        self.jobs[job.id] = job

    def take(self, job: Twin, worker: str) -> None:
        assert job.status == "pending", f"claimed although {job.status}"
        job.status, job.worker, job.expired = "processing", worker, False
        job.token += 1
        job.attempts += 1
        job.outcomes[job.token] = "running"

    # -- the ends of a lease -----------------------------------------------------------------------------------------

    def _leave(self, job: Twin, status: str, outcome: str) -> None:
        job.outcomes[job.token] = outcome
        job.status, job.worker, job.expired = status, None, False
        if status in ENDED:
            self._advance(job)

    def complete(self, job: Twin) -> None:
        self._leave(job, "completed", "completed")

    def fail(self, job: Twin, *, permanent: bool) -> None:
        spent = permanent or job.attempts >= job.max_attempts
        job.due = spent
        self._leave(job, "failed" if spent else "waiting", "failed")

    def release(self, job: Twin) -> None:
        job.attempts -= 1
        self._leave(job, "pending", "released")

    def put_off(self, job: Twin) -> None:
        job.attempts -= 1
        job.due = False
        self._leave(job, "waiting", "released")

    def recover(self, jobs: Iterable[Twin]) -> None:
        for job in list(jobs):
            self._leave(job, "failed" if job.attempts >= job.max_attempts else "pending", "lost")
            job.token += 1

    # -- people ------------------------------------------------------------------------------------------------------

    def cancel(self, job: Twin) -> None:
        if job.status not in ACTIVE:
            return
        if job.status == "processing":
            job.outcomes[job.token] = "cancelled"
        job.status, job.worker, job.expired, job.blocked = "cancelled", None, False, False
        self._advance(job)

    def retry(self, job: Twin) -> None:
        if job.status not in ("failed", "cancelled"):
            return
        if self.holder_of(job.key) or self.fatal(job.needs):
            raise Refused
        self._start_over(job)
        job.due = True
        self._hold(job)
        self._revive(job)

    def discard(self, job: Twin) -> None:
        if job.status in ACTIVE or any(other.blocked for other in self._dependants(job)):
            raise Refused
        for other in self._dependants(job):
            del other.needs[job.id]
        del self.jobs[job.id]

    # -- the queue itself --------------------------------------------------------------------------------------------

    def promote(self, jobs: Iterable[Twin]) -> None:
        for job in [job for job in jobs if job.status == "waiting" and not job.blocked and job.due]:
            self._hold(job)

    def reconcile(self, type: str, existing: Collection[str]) -> None:
        seen = [
            (job, job.status) for job in self.jobs.values() if job.type == type and job.status != "processing"
        ]
        for job, status in seen:
            if job.status != status:
                continue  # an earlier repair has moved it; the next reconcile looks again
            if job.id in existing and status != "completed":
                job.status, job.blocked, job.because = "completed", False, ""
                job.token += 1
                self._revive(job)
                self._advance(job)
            elif job.id not in existing and status == "completed" and not self.holder_of(job.key):
                self._start_over(job)
                job.due = True
                self._hold(job)

    # -- what follows ------------------------------------------------------------------------------------------------

    def _dependants(self, job: Twin) -> list[Twin]:
        return [other for other in self.jobs.values() if job.id in other.needs]

    def _advance(self, job: Twin) -> None:
        for other in self._dependants(job):
            if other.blocked:
                self._hold(other)

    def _hold(self, job: Twin) -> None:
        """Pending, waiting or cancelled, as the prerequisites stand now."""
        job.causes = self.fatal(job.needs)
        if job.causes:
            job.status, job.blocked, job.because = "cancelled", False, min(job.causes)
            self._advance(job)
            return
        job.blocked = not self.is_met(job.needs)
        job.status = "waiting" if job.blocked or not job.due else "pending"

    def _start_over(self, job: Twin) -> None:
        job.attempts, job.because, job.status = 0, "", "waiting"

    def _revive(self, cause: Twin) -> None:
        fallen = [job for job in self.jobs.values() if job.status == "cancelled" and job.because == cause.id]
        back = []
        for job in fallen:
            if self.holder_of(job.key):
                job.because = ""
            else:
                self._start_over(job)
                job.blocked = True
                back.append(job)
        for job in back:
            if job.blocked:
                self._hold(job)
