"""The worker API as a transport: the same loop, told by request and answer.

An idle worker asks for jobs once a second; one that runs jobs sends a heartbeat every second, whose answer names what
to stop. A claim goes under a key that stays the same until it has been answered, so no lease is given unheard.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs import fleet, payloads, processes
from jobs.exceptions import LeaseLost, WorkerDisabled, WorkerDismissed, WorkerOffline
from jobs.lifecycle.leases import ClaimedJob, FailureReport, Lease
from jobs.lifecycle.running import ProgressReport
from jobs.worker.context import JobContext
from jobs.worker.over_http.connection import (
    HEARTBEAT_TIMEOUT,
    Access,
    CannotTrust,
    Connection,
    NotSprocket,
    Refused,
    Unreachable,
)
from jobs.worker.over_http.folder import WorkFolder
from jobs.worker.site import Site
from jobs.worker.transport import Hands

log = logging.getLogger("jobs.worker")

TICK_SECONDS = 1.0
"""How often an idle worker asks for jobs, and a busy one what to stop."""
MOST_PLACES = 256
LONGEST_TEXT = 100_000
LONGEST_RETRY = 366 * 86400.0


class OverHttp:
    unreachable: tuple[type[Exception], ...] = (Unreachable,)
    troubles: tuple[type[Exception], ...] = (Unreachable, Refused)
    awake_seconds = 0.0
    progress_seconds = 1.0
    farewell_seconds = 2.0
    place_is_held_until_reported = True

    def __init__(
        self,
        access: Access,
        *,
        folder: Path,
        cache_bytes: int,
        types: Collection[str],
        capabilities: Collection[str],
        concurrency: int,
    ) -> None:
        self.place = access.server
        self._connection = Connection(access)
        self._folder = WorkFolder(folder)
        self._cache_bytes = cache_bytes
        self._announced: dict[str, Any] = {
            "types": sorted(types),
            "capabilities": sorted(fleet.capabilities_of(types, capabilities)),
            "concurrency": concurrency,
            "version": fleet.current_version()[:50],
            "metadata": {"host": processes.this_host().name, "pid": os.getpid()},
        }
        self._worker_id = ""
        self._name = ""
        self._types: list[str] = []
        self._lease_seconds = 0.0
        self._heartbeat_seconds = TICK_SECONDS
        self._next_heartbeat = 0.0
        self._reported_busy: bool | None = None
        self._claim_key = ""
        self._claim_asked_at = 0.0
        self._owed: set[Lease] = set()

    @property
    def name(self) -> str:
        return self._name

    @property
    def types(self) -> list[str]:
        return self._types

    @property
    def lease_seconds(self) -> float:
        return self._lease_seconds

    # -- the worker itself ---------------------------------------------------------------------------------------

    def enter(self) -> None:
        if self._folder.own is None:
            self._folder.open(self._connection.access.key)
        try:
            answer = self._heartbeat("starting", **self._announced)
        except NotSprocket as problem:
            raise WorkerDismissed(
                f"{self.place} is not the API of a Sprocket site: {problem}. "
                "Give the URL under which the site has mounted it, such as https://example.org/api."
            ) from None
        except CannotTrust as problem:
            raise WorkerDismissed(
                f"The certificate of {self.place} is not trusted here ({problem}). "
                "SSL_CERT_FILE may name a file with the authority's certificate."
            ) from None
        except Refused as refusal:
            raise WorkerDismissed(f"{self.place} refuses this worker: {refusal.detail}") from None
        self._raise_if_outdated(answer)
        if not self._types:
            log.warning(
                "%s lets remote workers run none of these types: %s",
                self.place,
                ", ".join(self._announced["types"]),
            )

    def not_ready(self) -> str:
        return ""  # what the server's database has is the server's business

    def may_come_back(self) -> bool:
        return True

    def register_again(self) -> None:
        self.beat_soon()

    def beat_soon(self) -> None:
        self._next_heartbeat = 0.0

    def beat(self, hands: Hands) -> float:
        now, running = time.monotonic(), hands.leases()
        busy = bool(running)
        if now >= self._next_heartbeat or busy != self._reported_busy:
            answer = self._heartbeat("busy" if busy else "idle", running=_told(running))
            self._reported_busy = busy
            pause = min(TICK_SECONDS, self._heartbeat_seconds) if busy else self._heartbeat_seconds
            self._next_heartbeat = now + pause
            if busy:
                hands.renewed(as_of=now)
                hands.keep_only(
                    self._leases_in(answer["leases"]),
                    cancelled=self._leases_in(
                        stop for stop in answer.get("stop", ()) if stop["reason"] == "cancelled"
                    ),
                    as_of=now,
                )
            self._follow(answer, hands)
        return min(TICK_SECONDS, self._heartbeat_seconds, max(0.01, self._next_heartbeat - now))

    def _follow(self, answer: dict[str, Any], hands: Hands) -> None:
        order = str(answer["order"])
        if order in ("disabled", "outdated"):
            self._owed |= set(hands.stop_all())
        self._release_owed(f"the worker is {order}")
        self._raise_if_outdated(answer)
        hands.obey(order)

    def _release_owed(self, reason: str) -> None:
        """What was stopped on order goes back to the queue, also if that takes a second try."""
        for lease in list(self._owed):
            self.release([lease], reason=reason)
            self._owed.discard(lease)

    def _raise_if_outdated(self, answer: dict[str, Any]) -> None:
        if answer["order"] == "outdated":
            self.leave()
            raise WorkerDismissed(
                f"This worker has version {self._announced['version']}, and the site asks for "
                f"{answer['min_version']} or newer: upgrade it (pip install --upgrade sprocket-queue)."
            )

    def _heartbeat(self, status: str, **told: Any) -> dict[str, Any]:
        answer = self._connection.post("heartbeat", {"status": status, **told}, timeout=HEARTBEAT_TIMEOUT)
        try:
            self._worker_id, self._name = str(answer["worker_id"]), str(answer["name"])
            self._types = [str(name) for name in answer["types"]]
            self._lease_seconds = _seconds(answer["lease_seconds"])
            self._heartbeat_seconds = _seconds(answer["heartbeat_seconds"])
            if not {"order", "leases", "min_version"} <= answer.keys():
                raise KeyError
        except (KeyError, TypeError, ValueError):
            raise NotSprocket("its answer to a heartbeat is not one") from None
        return answer

    def _leases_in(self, told: Iterable[dict[str, Any]]) -> set[Lease]:
        return {Lease(lease["job_id"], lease["token"], self._worker_id) for lease in told}

    def listen(self, on_hint: Callable[[], None]) -> None:
        pass

    def stop_listening(self) -> None:
        pass

    def longest_sleep(self, *, ends_by_itself: bool) -> float:
        return TICK_SECONDS

    def leave(self) -> None:
        self._release_owed("the worker stopped")
        if self._claim_key:  # its answer was lost: what it gave is given back, and no attempt is spent
            held = self._leases_in(self._heartbeat("idle")["leases"])
            self.release(held, reason="the worker stopped before it knew")
        self._heartbeat("stopped")

    def close(self) -> None:
        self._connection.close()
        self._folder.close()

    # -- its threads -----------------------------------------------------------------------------------------------

    def prepare_thread(self) -> None:
        pass

    def prepare_claims(self) -> None:
        pass

    def reconnect(self) -> None:
        pass

    # -- its jobs ----------------------------------------------------------------------------------------------------

    def claim(self, places: int, running: Mapping[str, int]) -> tuple[list[ClaimedJob], float]:
        now = time.monotonic()
        if not self._claim_key or now - self._claim_asked_at > self._lease_seconds:
            # A lease that was given so long ago, unheard, has run out.
            self._claim_key, self._claim_asked_at = secrets.token_urlsafe(18), now
        try:
            answer = self._connection.post("claim", {"slots": places}, Idempotency_Key=self._claim_key)
        except Refused as refusal:
            raise self._meaning_of(refusal) from None
        try:
            jobs = [self._claimed(job) for job in answer["jobs"]]
        except (KeyError, TypeError):
            raise NotSprocket("its answer to a claim is not one") from None
        self._claim_key = ""
        return jobs, self._claim_asked_at

    def _meaning_of(self, refusal: Refused) -> Exception:
        if refusal.code == "worker_disabled":
            return WorkerDisabled(self._name)
        if refusal.code == "worker_offline":
            return WorkerOffline(self._name)
        if refusal.code == "worker_outdated":
            self.beat_soon()  # its answer says more, and ends this worker in order
            return WorkerOffline(self._name)
        return refusal

    def _claimed(self, job: dict[str, Any]) -> ClaimedJob:
        return ClaimedJob(
            lease=Lease(job["job_id"], job["token"], self._worker_id),
            type=job["type"],
            payload=job["payload"],
            attempt=job["attempt"],
            max_attempts=job["max_attempts"],
            correlation_id=job["correlation_id"],
            priority=job["priority"],
            submitter=job["submitter"],
            workflow_id=job["workflow_id"],
        )

    def unheard(self) -> set[Lease]:
        return set()  # the claim is repeated under its key, and answered with the same leases

    def complete_many(self, done: Sequence[tuple[Lease, Any]]) -> Collection[Lease]:
        return [lease for lease, result in done if not self._completed(lease, result)]

    def _completed(self, lease: Lease, result: Any) -> bool:
        """What the server does not take as done (files are missing, the result is too large) has failed."""
        try:
            return self._told(lease, "complete", {"result": result}) is not None
        except Refused as refusal:
            final = refusal.status in (413, 422)
            failure = FailureReport("RefusedByServer", refusal.detail, permanent=final)
        try:
            status = self.fail(lease, failure)
        except LeaseLost:
            return False
        log.warning("job %s: the server takes it not as done: %s → %s", lease.job_id, failure.message, status)
        return True

    def release(self, leases: Collection[Lease], *, reason: str) -> Collection[Lease]:
        return [lease for lease in leases if not self._told(lease, "release", {"reason": reason[:1000]})]

    def report_progress(self, reports: Sequence[ProgressReport]) -> Collection[Lease]:
        return [
            report.lease
            for report in reports
            if not self._told(
                report.lease, "progress", {"percent": report.percent, "step": report.step[:100]}
            )
        ]

    def fail(self, lease: Lease, failure: FailureReport) -> str:
        told: dict[str, Any] = {
            "type": payloads.storable(failure.type)[:200],
            "message": payloads.storable(failure.message)[:LONGEST_TEXT] or failure.type[:200],
            "traceback": payloads.storable(failure.traceback)[-LONGEST_TEXT:],
            "permanent": failure.permanent,
        }
        if failure.retry_in is not None:
            told["retry_in_seconds"] = min(LONGEST_RETRY, max(0.0, failure.retry_in.total_seconds()))
        if not failure.counted:
            told["counted"] = False
        answer = self._told(lease, "fail", told)
        if answer is None:
            raise LeaseLost(lease.job_id)
        return str(answer.get("status", ""))

    def _told(self, lease: Lease, verb: str, told: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a report about a job; None: the lease is lost."""
        try:
            return self._connection.post(f"jobs/{lease.job_id}/{verb}", {"token": lease.token, **told})
        except Refused as refusal:
            if refusal.code in ("lease_lost", "not_found"):
                return None
            raise

    def is_empty(self) -> bool:
        try:
            return self._connection.get("empty").get("empty") is True
        except self.troubles:
            return False  # asked again, as long as nobody knows

    def has_due(self) -> bool:
        try:
            return self._connection.get("empty").get("due") is True
        except self.troubles:
            return True  # asked again, as above

    def site_of(self, context: JobContext) -> Site:
        lease = context.lease
        return Site(
            context,
            self._connection.access,
            folder=self._folder.of_job(lease.job_id, lease.token),
            sources=self._folder.sources,
            cache_bytes=self._cache_bytes,
        )


def _told(leases: Collection[Lease]) -> list[dict[str, Any]]:
    return [{"job_id": lease.job_id, "token": lease.token} for lease in leases]


def _seconds(given: Any) -> float:
    seconds = float(given)
    if not 0 < seconds < 10 * 365 * 86400:
        raise ValueError(given)
    return seconds
