"""What a job without a database has of the site: its order, its source, and a place for the files it makes."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jobs.exceptions import JobsError, RetryLater
from jobs.worker.context import JobContext
from jobs.worker.over_http.connection import Access, Refused, Unreachable
from jobs.worker.over_http.transfers import Cancelled, JobRequests, persist, watch
from jobs.worker.source_cache import HeldSource, SourceCache, SourceFile

log = logging.getLogger("jobs.worker")

_CHUNK = 256 * 1024
SERVER_FULL_WAIT = timedelta(minutes=1)


class FileRefusedByServer(JobsError):
    """The server does not take this file; the message says why. Sending it again cannot help."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class NotGiven(JobsError):
    """The server does not give this file to the job."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")


class Site:
    """One for each running job. The order is asked for when it is first needed, and once: a type without artifact whose
    handler does not look here costs no request at all, any other one needs the order before it can begin anyway."""

    def __init__(
        self, job: JobContext, access: Access, *, folder: Path, sources: Path, cache_bytes: int
    ) -> None:
        self._job = job
        self._access = access
        self._folder = folder
        self._sources = sources
        self._cache_bytes = cache_bytes
        self._requests = JobRequests(access, job)
        self._described: dict[str, Any] | None = None
        self._held: HeldSource | None = None

    # -- the order ---------------------------------------------------------------------------------------------------

    @property
    def order(self) -> dict[str, Any]:
        """What the job's type adds on the server for a handler without a database."""
        order = self._description().get("order")
        return order if isinstance(order, dict) else {}

    @property
    def done(self) -> bool:
        """The result exists already: the job only has to be completed."""
        return self._description().get("done") is True

    def _description(self) -> dict[str, Any]:
        if self._described is None:
            self._described = watch(
                self._job,
                lambda cancelled: persist(cancelled, lambda: self._requests.get("order"), self._complain),
                step="asking for the order",
            )
        return self._described

    # -- files -------------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Of this job alone; removed when it ends, however it ends."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder

    def source(self) -> Path:
        """The source file, to read and not to change. Fetched once for all jobs of this machine that need it."""
        if self._held is None:
            given = self._description().get("source")
            if given is None:
                raise LookupError(f"Job {self._job.id} has no source file.")
            cache = SourceCache(self._sources, self._cache_bytes)
            self._held = cache.fetch(self._job, SourceFile.parse(given), self._requests)
        return self._held.path

    def send(self, name: str, path: Path) -> None:
        """Give the server a file, under a name that the job's type allows. The same file once more changes nothing.

        Raises LeaseLost or FileRefusedByServer. While the server is away it is tried again, as long as the lease lives.
        """
        watch(self._job, lambda cancelled: self._send(name, path, cancelled), step=f"sending {name}")

    def _send(self, name: str, path: Path, cancelled: threading.Event) -> None:
        size, sha256 = _measure(path, cancelled)

        def put() -> dict[str, object]:
            return self._requests.put(
                f"files/{quote(name)}",
                _read(path, size, cancelled),
                Content_Length=str(size),
                Content_Type="application/octet-stream",
                X_Content_SHA256=sha256,
            )

        try:
            answer = persist(cancelled, put, self._complain)
        except Refused as refusal:
            if refusal.status == 507:
                raise RetryLater(SERVER_FULL_WAIT, f"{name}: {refusal.detail}") from None
            raise FileRefusedByServer(name, refusal.detail) from None
        if answer.get("sha256") != sha256:
            raise FileRefusedByServer(name, "the server confirms another checksum than was sent")

    def fetch(self, name: str) -> Path:
        """A file of the site besides the source that the job's type lets it read; in the folder, under its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        watch(self._job, lambda cancelled: self._fetch(name, path, cancelled), step=f"fetching {name}")
        return path

    def _fetch(self, name: str, path: Path, cancelled: threading.Event) -> None:
        def get() -> None:
            digest = hashlib.sha256()
            with self._requests.stream(f"files/{quote(name)}") as response, path.open("wb") as file:
                for chunk in response.iter_bytes(_CHUNK):
                    if cancelled.is_set():
                        raise Cancelled
                    digest.update(chunk)
                    file.write(chunk)
            if response.headers.get("ETag") != f'"{digest.hexdigest()}"':
                raise Unreachable(f"{name} has arrived with another checksum")

        try:
            persist(cancelled, get, self._complain)
        except Refused as refusal:
            raise NotGiven(name, refusal.detail) from None

    def wait_for_its_part(self, step: str) -> None:
        """Until the site has done what only it can do for this job, a few seconds of work at a request."""
        body: dict[str, object] = {"token": self._job.lease.token}
        while True:
            answer = watch(
                self._job,
                lambda cancelled: persist(
                    cancelled, lambda: self._requests.post("proceed", body), self._complain
                ),
                step=step,
            )
            if answer.get("done") is True:
                return
            percent = answer.get("percent")
            self._job.progress(
                percent if isinstance(percent, float) and 0 <= percent <= 100 else 0, step=step
            )

    def _complain(self, problem: str) -> None:
        log.warning(
            "job %s: %s cannot be asked (%s); trying again",
            self._job.id,
            self._access.server,
            problem,
            extra={"code": "server_not_asked"},
        )

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Called by the worker when the job has ended."""
        held, self._held = self._held, None
        if held is not None:
            held.let_go()
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- for the child process of an isolated job ---------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "server": self._access.server,
            "key": self._access.key,
            "folder": str(self._folder),
            "sources": str(self._sources),
            "cache_bytes": self._cache_bytes,
        }

    @classmethod
    def from_json(cls, job: JobContext, given: dict[str, Any]) -> Site:
        return cls(
            job,
            Access(given["server"], given["key"]),
            folder=Path(given["folder"]),
            sources=Path(given["sources"]),
            cache_bytes=given["cache_bytes"],
        )


def _measure(path: Path, cancelled: threading.Event) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    for chunk in _read(path, None, cancelled):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def _read(path: Path, size: int | None, cancelled: threading.Event) -> Iterator[bytes]:
    """The file in pieces, exactly as long as it was."""
    with path.open("rb") as file:
        if size is not None and os.fstat(file.fileno()).st_size != size:
            raise ValueError(f"{path.name} has changed while it was sent.")
        while chunk := file.read(_CHUNK):
            if cancelled.is_set():
                raise Cancelled
            yield chunk
