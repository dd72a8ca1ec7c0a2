"""Files that remote workers send: received, checked, and put into the folder of their lease while that lives."""

from __future__ import annotations

import errno
import hashlib
import hmac
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs import archives, database, remote_jobs, staging
from jobs.archives import BLOCK, Stream, TooLarge
from jobs.exceptions import LeaseLost
from jobs.lifecycle.leases import lock_leased
from jobs.remote_work import FileRefused, RemoteJob, RemoteWork

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class NoRoom(Exception):
    """The disk is full; nothing of the file was kept."""


@dataclass(frozen=True, slots=True)
class Stored:
    name: str
    bytes: int
    sha256: str


def limit_of(job: RemoteJob, name: str) -> int:
    """The largest size of a file of this name. Raises FileRefused for a name that the job may not write."""
    limit = remote_jobs.work_of(job).file_limit(job, staging.check_name(name))
    if limit is None:
        raise staging.not_allowed(name)
    return limit


def receive(job: RemoteJob, name: str, body: Stream, *, size: int, sha256: str) -> Stored:
    """One file. Raises FileRefused, TooLarge, NoRoom or LeaseLost; then nothing of it is left."""
    limit = limit_of(job, name)
    if size > limit:
        raise TooLarge(f"{name} may have {limit:,} bytes.")
    with _room(job) as (work, staged, folder):
        digest = hashlib.sha256()
        path = folder / "file"
        _write(path, _blocks(body, size, digest))
        _compare(digest, sha256)
        work.check(job, name, path, staged)
        _store(job, work, staged, {name: path})
    return Stored(name, size, sha256)


def receive_archive(job: RemoteJob, body: Stream, *, size: int, sha256: str) -> list[Stored]:
    """All the files of a .tar.gz, or none of them."""
    work = remote_jobs.work_of(job)
    if work.staging() is None:
        raise FileRefused("This job sends no files.")
    with _room(job) as (work, staged, folder):
        digest = hashlib.sha256()
        packed = _Reader(_blocks(body, size, digest))
        stored, paths = [], {}
        for member in archives.members(packed, limit_of=lambda name: limit_of(job, name)):
            path = paths[member.name] = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = hashlib.sha256()
            _write(path, _noted(member.blocks, content))
            stored.append(Stored(member.name, member.size, content.hexdigest()))
        packed.drain()
        _compare(digest, sha256)
        if not stored:
            raise FileRefused("There are no files in the archive.")
        for name, path in paths.items():
            work.check(job, name, path, folder)
        _store(job, work, staged, paths)
    return stored


@contextmanager
def _room(job: RemoteJob) -> Iterator[tuple[RemoteWork, Path, Path]]:
    """The work, the folder of the lease, and a folder for what arrives."""
    work = remote_jobs.work_of(job)
    staged = staging.folder_of(work, job.lease)
    try:
        with staging.arriving(staged) as folder:
            yield work, staged, folder
    except LeaseLost:
        staging.remove(staged)  # its clean-up may have been over before this folder was there
        raise
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise NoRoom from error
        if isinstance(error, FileNotFoundError):
            remote_jobs.find(job.worker, job.lease)  # the folder was cleaned up under our hands: LeaseLost
        raise


def _store(job: RemoteJob, work: RemoteWork, staged: Path, paths: dict[str, Path]) -> None:
    """Under the lock of the live lease: a worker that has lost the job changes nothing."""

    def write() -> None:
        with database.atomic():
            lock_leased(job.lease)
            for name, path in paths.items():
                if path.exists():  # a transaction may be tried again
                    staging.put(path, staged, name)
            for name in paths:
                work.stored(job, name, staged)

    database.when_unlocked(write)


def _write(path: Path, blocks: Iterable[bytes]) -> None:
    with path.open("xb") as file:
        for block in blocks:
            file.write(block)


def _blocks(body: Stream, size: int, digest: Any) -> Iterator[bytes]:
    left = size
    while left and (block := body.read(min(BLOCK, left))):
        left -= len(block)
        digest.update(block)
        yield block
    if left:
        raise FileRefused(f"{size - left:,} bytes have arrived, not the {size:,} of Content-Length.")


def _noted(blocks: Iterable[bytes], digest: Any) -> Iterator[bytes]:
    for block in blocks:
        digest.update(block)
        yield block


def _compare(digest: Any, sha256: str) -> None:
    if not hmac.compare_digest(digest.hexdigest(), sha256):
        raise FileRefused(f"X-Content-SHA256: what has arrived has {digest.hexdigest()}.")


class _Reader:
    """Blocks as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block, self._at = b"", 0

    def read(self, size: int, /) -> bytes:
        if self._at >= len(self._block):
            self._block, self._at = next(self._blocks, b""), 0
        given = self._block[self._at : self._at + size]
        self._at += len(given)
        return given

    def drain(self) -> None:
        for _ in self._blocks:
            pass
