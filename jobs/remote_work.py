"""What a job type says about workers on other machines: what they need besides the payload, and what they may send.

    class Films(RemoteWork):
        def order(self, job): return {"plan": …}
        def source(self, job): return SourceFile(path, "film.mov", size, sha256)
        …

    @job_type("films.encode", remote=Films())

`remote=True` is a RemoteWork as it stands here: the payload is all that a worker gets, the result all that it sends.
Files arrive in a folder of the one lease (staging.py). What makes them real is the type's own decision, in `stored`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.lifecycle.leases import FailureReport, Lease
    from jobs.models import Worker


class FileRefused(Exception):
    """What was sent is not what this job makes; its text is for the people who look after the worker."""


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job that a remote worker holds under a live lease."""

    lease: Lease
    type: str
    payload: dict[str, Any]
    attempt: int
    max_attempts: int
    worker: Worker


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The one file that a job reads. Its checksum is known: it never changes."""

    path: Path
    name: str
    bytes: int
    sha256: str


class RemoteWork:
    """Subclass it; what is not said has a harmless default."""

    def order(self, job: RemoteJob) -> dict[str, Any]:
        """What the handler gets in place of a database, as JSON. Raises RetryLater, PermanentFailure or LeaseLost as a
        handler would, when this worker cannot or need not run the job."""
        return {}

    def source(self, job: RemoteJob) -> SourceFile | None:
        return None

    def input(self, job: RemoteJob, name: str) -> SourceFile | None:
        """A file besides the source that the job reads, by the name under which it asks for it; None: there is none."""
        return None

    def staging(self) -> Path | None:
        """A folder on the disk where the files will live; each lease has a folder in it. None: there are no files."""
        return None

    def file_limit(self, job: RemoteJob, name: str) -> int | None:
        """The largest size of this file; None: the job may not write that name."""
        return None

    def check(self, job: RemoteJob, name: str, path: Path, staged: Path) -> None:
        """Look into a file that has arrived whole, before it counts. Takes no locks. Raises FileRefused.

        `staged` is the folder with what arrived before it; for the files of an archive, with all of the archive.
        """

    def stored(self, job: RemoteJob, name: str, staged: Path) -> None:
        """The file is at `staged / name`. Under the lock of the live lease: quick renames only."""

    def proceed(self, job: RemoteJob) -> float:
        """Work that only the site can do: a few seconds of it, then how much of all is done, from 0 to 1. Without a
        lock; again after a crash, or twice at once. Asked until it says 1, last before the job is completed. Whatever
        it raises ends the attempt, as in a handler."""
        return 1.0

    def finish(self, job: RemoteJob, result: Any) -> None:
        """The worker says that it is done: in the transaction that completes the job, under its lock. Raises
        FileRefused when something is missing."""

    def failed(self, job: RemoteJob, failure: FailureReport) -> None:
        """Before a failed attempt is recorded. Raises LeaseLost when the type has decided otherwise about the job."""


class DoneAtSite(RemoteWork):
    """A job of some seconds that needs the database: a worker keeps the lease, and the site runs the handler itself
    when it is asked to proceed. The worker sends nothing, so there is nothing that it could forge."""


PLAIN = RemoteWork()
