"""Source files that this machine has fetched: each once, for all threads and processes, up to a size.

<sources>/<sha256>/lock          shared by those who use the file, exclusive for who fetches or removes it; its time
                                 stamp says when the file was last used
<sources>/<sha256>/part          what has arrived so far; a fetch that was cut goes on there
<sources>/<sha256>/source.mp4    whole, and its checksum was right
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import httpx

from jobs.exceptions import JobsError
from jobs.worker.context import JobContext
from jobs.worker.over_http.connection import Unreachable
from jobs.worker.over_http.transfers import Cancelled, JobRequests, persist, watch

log = logging.getLogger("jobs.worker")

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")
_CHUNK = 1 << 20
_TRIES = 2
"""So often a file is fetched whose checksum is wrong."""


class SourceDamaged(JobsError):
    """What the server sent is not the file that it promised."""

    code = "source_damaged"


class WorkerDiskFull(JobsError):
    """This machine has no room for the job."""

    code = "worker_disk_full"


@dataclass(frozen=True)
class SourceFile:
    name: str
    bytes: int
    sha256: str

    @classmethod
    def parse(cls, given: object) -> SourceFile:
        """What the server said, which becomes a path here."""
        if isinstance(given, dict):
            name, size, sha256 = given.get("name"), given.get("bytes"), given.get("sha256")
            known = isinstance(name, str) and isinstance(sha256, str) and bool(_SHA256.fullmatch(sha256))
            if known and isinstance(size, int) and size >= 0:
                return cls(str(name), size, str(sha256))
        raise SourceDamaged(
            "The server's description of the source file cannot be understood.", code="bad_description"
        )

    @property
    def file_name(self) -> str:
        suffix = Path(self.name).suffix
        return "source" + (suffix.lower() if _SUFFIX.fullmatch(suffix) else "")


class HeldSource:
    """A source file that stays where it is until it is let go."""

    def __init__(self, path: Path, descriptor: int, cache: SourceCache) -> None:
        self.path = path
        self._descriptor = descriptor
        self._cache = cache

    def let_go(self) -> None:
        os.close(self._descriptor)
        self._cache.make_room(0)


class SourceCache:
    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def fetch(self, job: JobContext, source: SourceFile, requests: JobRequests) -> HeldSource:
        """The file, from here or from the server."""
        while (held := self._hold(source)) is None:
            watch(
                job,
                lambda cancelled: self._bring(job, source, requests, cancelled),
                step="fetching the source",
            )
        return held

    def _hold(self, source: SourceFile) -> HeldSource | None:
        """Use the file if it is here, whole."""
        home = self._folder / source.sha256
        path = home / source.file_name
        descriptor = _lock(home, fcntl.LOCK_SH)
        if descriptor is None:
            return None
        if not path.is_file():
            os.close(descriptor)
            return None
        os.utime(descriptor)
        return HeldSource(path, descriptor, self)

    def _bring(
        self, job: JobContext, source: SourceFile, requests: JobRequests, cancelled: threading.Event
    ) -> None:
        """Fetch it, or wait a moment for whoever does."""
        home = self._folder / source.sha256
        descriptor = _lock(home, fcntl.LOCK_EX)
        if descriptor is None:
            cancelled.wait(0.1)
            return
        try:
            if not (home / source.file_name).is_file():
                _Fetching(job, source, requests, cancelled, home, self).run()
        finally:
            os.close(descriptor)

    # -- room --------------------------------------------------------------------------------------------------------

    def make_room(self, need: int, *, but: str = "") -> None:
        """Remove what was not used for the longest time until so many bytes fit in; never what is in use."""
        homes = sorted(((_used_at(home), home) for home in _homes(self._folder)), key=lambda pair: pair[0])
        sizes = {home: _size(home) for _, home in homes}
        total = sum(sizes.values())
        for _, home in homes:
            if total + need <= self._limit and shutil.disk_usage(self._folder).free >= need:
                return
            if home.name != but and _remove(home):
                total -= sizes[home]

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._folder).free


class _Fetching:
    """One file on its way, by whoever holds its exclusive lock."""

    def __init__(
        self,
        job: JobContext,
        source: SourceFile,
        requests: JobRequests,
        cancelled: threading.Event,
        home: Path,
        cache: SourceCache,
    ) -> None:
        self._job, self._source, self._requests, self._cancelled = job, source, requests, cancelled
        self._home, self._part, self._cache = home, home / "part", cache

    def run(self) -> None:
        for _ in range(_TRIES):
            self._have, self._digest = self._resume()
            need = self._source.bytes - self._have
            self._cache.make_room(need, but=self._source.sha256)
            if self._cache.free_bytes() < need:
                raise self._no_room()
            with self._disk_may_be_full(), self._part.open("ab") as file:
                persist(self._cancelled, partial(self._receive, file), self._complain)
                os.fsync(file.fileno())
            if self._digest.hexdigest() == self._source.sha256:
                self._part.rename(self._home / self._source.file_name)
                return
            self._part.unlink()
        raise SourceDamaged(
            f"The source of job {self._job.id} arrived {_TRIES} times with another checksum than the server names.",
            code="wrong_checksum",
        )

    def _resume(self) -> tuple[int, Any]:
        """How many bytes are here already, and their digest so far."""
        digest, have = hashlib.sha256(), 0
        if self._part.is_file():
            if self._part.stat().st_size > self._source.bytes:
                self._part.unlink()
                return 0, digest
            with self._part.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    self._raise_if_cancelled()
                    digest.update(chunk)
                    have += len(chunk)
        return have, digest

    def _receive(self, file: IO[bytes]) -> None:
        if self._have == self._source.bytes:
            return
        headers = {"Accept_Encoding": "identity"}
        if self._have:
            headers |= {"Range": f"bytes={self._have}-", "If_Range": f'"{self._source.sha256}"'}
        with self._requests.stream("source", **headers) as response:
            if not self._continues(response):
                file.truncate(0)
                self._have, self._digest = 0, hashlib.sha256()
            if response.status_code == 416:
                raise Unreachable("the server has no such part of the source; starting over")
            for chunk in response.iter_raw():
                self._raise_if_cancelled()
                if self._have + len(chunk) > self._source.bytes:
                    raise SourceDamaged(
                        f"The source of job {self._job.id} is longer than the server said.", code="too_long"
                    )
                file.write(chunk)
                self._digest.update(chunk)
                self._have += len(chunk)
            file.flush()
        if self._have < self._source.bytes:
            raise Unreachable("the source ended too early")

    def _continues(self, response: httpx.Response) -> bool:
        given = response.headers.get("Content-Range", "")
        return response.status_code == 206 and given.startswith(f"bytes {self._have}-")

    def _raise_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled

    def _complain(self, problem: str) -> None:
        log.warning("job %s: its source cannot be fetched now (%s); trying again", self._job.id, problem)

    @contextmanager
    def _disk_may_be_full(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._part.unlink(missing_ok=True)
            raise self._no_room() from None

    def _no_room(self) -> WorkerDiskFull:
        return WorkerDiskFull(
            f"The disk of this worker has no room for the source of job {self._job.id}: it has "
            f"{self._source.bytes:,} bytes, and {self._cache.free_bytes():,} are free."
        )


# -- the folders -------------------------------------------------------------------------------------------------------


def _homes(folder: Path) -> list[Path]:
    return [home for home in folder.iterdir() if _SHA256.fullmatch(home.name)]


def _used_at(home: Path) -> float:
    try:
        return (home / "lock").stat().st_mtime
    except OSError:
        return 0.0


def _size(home: Path) -> int:
    try:
        return sum(path.stat().st_size for path in home.iterdir() if path.name != "lock")
    except OSError:
        return 0


def _lock(home: Path, mode: int) -> int | None:
    """A descriptor that holds the lock; None: not now. Who waited for a folder that was removed has locked nothing."""
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        path = home / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _remove(home: Path) -> bool:
    descriptor = _lock(home, fcntl.LOCK_EX)
    if descriptor is None:
        return False
    try:
        for path in home.iterdir():
            if path.name != "lock":
                path.unlink(missing_ok=True)
        (home / "lock").unlink()  # last: from here on another one may lock this folder anew
        home.rmdir()
    except OSError:
        log.debug("%s could not be removed whole", home, exc_info=True)
    os.close(descriptor)
    return True
