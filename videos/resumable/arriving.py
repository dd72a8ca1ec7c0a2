"""The file of an unfinished upload, and the right to write to it.

One writer at a time, on all web servers together: who holds a file lock. The system lets go of it when a process
dies. A writer from whom nothing came for a while may be one whose client is long gone, on a connection that nobody has
told so; the next writer takes the lock file away, and the old one finds out before its next byte.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from videos import storage
from videos.resumable.protocol import Checksum

SILENCE = 20.0
"""Seconds without a byte after which a writer may be replaced."""
_TRIES = 10


class Busy(Exception):
    """Somebody else is writing."""


class Mismatch(Exception):
    """The bytes are not those of the checksum; they are discarded."""


@dataclass(frozen=True)
class Arriving:
    upload_id: str
    name: str
    length: int

    @property
    def folder(self) -> Path:
        return storage.incoming(self.upload_id)

    @property
    def path(self) -> Path:
        return self.folder / storage.safe_name(self.name)

    @property
    def _lock(self) -> Path:
        return self.folder / ".writer"

    @property
    def _unverified(self) -> Path:
        """There while bytes arrive that have to match a checksum; says where they begin."""
        return self.folder / ".unverified"

    def offset(self) -> int:
        """Where to go on. A file that is whole, but has not become a video because the server died, lacks its last
        byte: whoever sends that makes it one."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return 0
        with contextlib.suppress(FileNotFoundError, ValueError):
            size = min(size, int(self._unverified.read_text()))
        return min(size, self.length - 1)

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path.touch()

    def remove(self) -> None:
        storage.remove(self.folder)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Pen]:
        """The right to write, whether or not the upload still goes on. Raises Busy."""
        lock = self._take_turn()
        try:
            with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0) as file:
                yield Pen(file, lock, self._unverified)
        finally:
            os.close(lock)

    def _take_turn(self) -> int:
        for _ in range(_TRIES):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
            if _lock_now(lock) and _is_linked(lock):
                os.ftruncate(lock, 0)
                os.utime(lock)
                return lock
            try:
                if _is_linked(lock) and not self._take_away(lock):
                    raise Busy
            finally:
                os.close(lock)
        raise Busy

    def _take_away(self, lock: int) -> bool:
        """From a writer that is silent. Not between two of its bytes: while it writes, it holds the file itself."""
        try:
            with self.path.open("ab") as file, _held(file.fileno()):
                if not _is_linked(lock):
                    return True
                now, last_byte = os.fstat(lock), os.fstat(file.fileno()).st_mtime
                if now.st_size or time.time() - max(now.st_mtime, last_byte) < SILENCE:
                    return False
                self._lock.unlink(missing_ok=True)
                return True
        except FileNotFoundError:  # the upload is gone, with its folder
            return True


class Pen:
    """What the writer writes with."""

    def __init__(self, file: BinaryIO, lock: int, unverified: Path) -> None:
        self._file = file
        self._lock = lock
        self._unverified = unverified
        self.offset = 0

    def receive(self, blocks: Iterable[bytes], checksum: Checksum | None) -> None:
        """Everything that arrives is kept, also when no more does; but with a checksum, only what matches."""
        start = self.offset
        if checksum:
            _write_through(self._unverified, str(start))
        try:
            for block in blocks:
                if checksum:
                    checksum.update(block)
                self._write(block)
            if checksum and not checksum.matches():
                raise Mismatch
            self._settle()
        except BaseException:
            with contextlib.suppress(Busy):
                self.cut(start if checksum else self.offset)
            raise

    def cut(self, offset: int) -> None:
        """What is beyond does not count."""
        with self._mine():
            self._file.truncate(offset)
            self._file.seek(offset)
            self.offset = offset
        self._settle()

    def keep(self) -> None:
        """Nobody takes the turn away from here on, however long nothing is written."""
        with self._mine():
            os.write(self._lock, b"last")

    def _write(self, block: bytes) -> None:
        left = memoryview(block)
        with self._mine():
            while left:
                written = self._file.write(left) or 0
                self.offset += written
                left = left[written:]

    def _settle(self) -> None:
        os.fsync(self._file.fileno())
        self._unverified.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _mine(self) -> Iterator[None]:
        with _held(self._file.fileno()):
            if not _is_linked(self._lock):
                raise Busy
            yield


def _write_through(path: Path, text: str) -> None:
    """On the disk, with its name, before anything else is."""
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _lock_now(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _held(descriptor: int) -> Iterator[None]:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _is_linked(descriptor: int) -> bool:
    """The file still has its name: nobody has taken it away."""
    return os.fstat(descriptor).st_nlink > 0
