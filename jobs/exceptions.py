"""Everything that can go wrong, as facts with the remedy in them.

JobsError
├── EnqueueRefused            nothing was written
│   ├── UnknownJobType
│   ├── InvalidPayload
│   ├── QueueFull             .retry_after
│   └── RateLimited           .retry_after
├── TransitionRefused         the job is not in a state that allows it
│   ├── LeaseLost             another worker owns the job; stop and report nothing
│   └── UniqueKeyTaken
├── TooManyTries              .retry_after
└── WorkerRefused             this worker may not claim
    ├── UnknownWorker
    ├── WorkerRevoked
    ├── WorkerDisabled
    ├── WorkerOffline
    ├── WorkerOutdated
    ├── WorkerNameTaken
    ├── WorkerDismissed       its process ends
    └── RedisMissing

Raised by handlers, to say how the attempt ended: PermanentFailure, RetryLater (and its kind BreakerOpen,
which `with breaker(…)` raises), JobStopped (and its kinds JobCancelled and JobTimeout).

Every JobsError and every BadValue has a `code` for programs and tests. The text is for people and may change.
"""

from __future__ import annotations

from datetime import timedelta


class Coded(Exception):
    """`code` says what is wrong, in snake_case: the one of the class, or the one given."""

    code: str = "error"

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code


class JobsError(Coded):
    """Base of every error that the queue itself raises."""


class BadValue(Coded, ValueError):
    """A declaration, a setting or an option that cannot be used."""

    code = "bad_value"


class EnqueueRefused(JobsError):
    """The job was not accepted and nothing was written."""

    code = "enqueue_refused"


class UnknownJobType(EnqueueRefused):
    code = "unknown_job_type"

    def __init__(self, name: str, known: list[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"No job type is named {name!r}. Registered: {listed}. "
            "Declare it with @job_type in the job_types.py of an installed app."
        )
        self.name = name
        self.known = sorted(known)


class InvalidPayload(EnqueueRefused):
    """The payload is not JSON, or too large."""

    code = "invalid_payload"


class QueueFull(EnqueueRefused):
    code = "queue_full"

    def __init__(self, depth: int, limit: int, adding: int = 1, retry_after: int = 30) -> None:
        super().__init__(
            f"The queue is full. Active jobs: {depth:,}; {adding:,} more would exceed MAX_DEPTH ({limit:,}). "
            f"Try again in {retry_after} s, or start more workers."
        )
        self.depth, self.limit, self.retry_after = depth, limit, retry_after


class RateLimited(EnqueueRefused):
    code = "rate_limited"

    def __init__(self, submitter: str, limit: int, retry_after: int) -> None:
        super().__init__(
            f"Submitter {submitter!r} would exceed its rate limit of {limit:,} a minute. Try again in {retry_after} s."
        )
        self.submitter, self.limit, self.retry_after = submitter, limit, retry_after


class TransitionRefused(JobsError):
    """The job is not in a state that allows this change; nothing was changed."""

    code = "transition_refused"


class LeaseLost(TransitionRefused):
    code = "lease_lost"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id}: this lease is over; stop the work and report nothing.")
        self.job_id = job_id


class UniqueKeyTaken(TransitionRefused):
    """Another active job has this job's unique key."""

    code = "unique_key_taken"


class TooManyTries(JobsError):
    """A client has tried something too often, such as keys that are wrong."""

    code = "too_many_tries"

    def __init__(self, what: str, retry_after: int) -> None:
        super().__init__(f"Too many tries ({what}). Try again in {retry_after} s.")
        self.retry_after = retry_after


class WorkerRefused(JobsError):
    """This worker may not claim jobs now."""

    code = "worker_refused"


class UnknownWorker(WorkerRefused):
    code = "unknown_worker"

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"Worker {worker_id} is not registered; register again before claiming.")


class WorkerRevoked(WorkerRefused):
    """While its request was under way: before, its key opens nothing."""

    code = "key_revoked"

    def __init__(self) -> None:
        super().__init__("This key was revoked: stop, and ask an administrator for another.")


class WorkerDisabled(WorkerRefused):
    code = "worker_disabled"

    def __init__(self, name: str) -> None:
        super().__init__(f"Worker {name} is disabled; an administrator must enable it before it claims jobs.")


class WorkerOffline(WorkerRefused):
    code = "worker_offline"

    def __init__(self, name: str) -> None:
        super().__init__(f"Worker {name} counts as offline; send a heartbeat before claiming.")


class WorkerOutdated(WorkerRefused):
    code = "worker_outdated"

    def __init__(self, name: str, version: str, minimum: str) -> None:
        super().__init__(
            f"Worker {name} runs version {version or 'unknown'} and the site asks for {minimum} or newer; upgrade it."
        )


class WorkerNameTaken(WorkerRefused):
    code = "name_taken"

    def __init__(self, name: str) -> None:
        super().__init__(f"Another worker is named {name!r}; choose another name.")


class WorkerDismissed(WorkerRefused):
    """The server will have nothing more to do with this worker; the message says why, and the process ends."""

    code = "worker_dismissed"


class RedisMissing(WorkerRefused):
    """QUEUE_MODE is redis, and no Redis answers."""

    code = "redis_missing"


class PermanentFailure(Exception):
    """Raised by a handler: trying again cannot help, so the remaining attempts are skipped."""


class RetryLater(Exception):
    """Raised by a handler: try again after this delay, in place of the usual backoff.

    With counted=False the attempt is given back: this was not the moment, or not the worker, and no fault of the job.
    """

    def __init__(self, delay: timedelta | float, reason: str = "", *, counted: bool = True) -> None:
        self.delay = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        self.counted = counted
        super().__init__(reason or f"retry in {self.delay}")


class BreakerOpen(RetryLater):
    """The breaker lets no call through now. In a handler it puts the job off and takes no attempt."""

    def __init__(self, name: str, delay: timedelta, reason: str = "") -> None:
        wait = max(timedelta(0), delay)
        super().__init__(
            wait,
            f"The breaker {name} lets no call through; try again in {wait.total_seconds():.0f} s."
            + (f" The last failure: {reason}" if reason else ""),
            counted=False,
        )
        self.name = name


class JobStopped(BaseException):
    """Raised inside a handler that must stop now.

    A BaseException, so that a handler's `except Exception` does not swallow it.
    """


class JobCancelled(JobStopped):
    """The job was cancelled. Raised by job.raise_if_stopped() at once, and in a handler that has not ended by itself
    within CANCEL_GRACE. Recorded as the error type of a cancelled attempt."""


class JobTimeout(JobStopped):
    """The attempt has used the whole timeout of its job type."""


class WorkerLost(Exception):
    """The worker that ran the job is gone. Nobody raises it: an attempt that ended so bears its name."""
