"""Reads a .tar.gz from strangers: regular files under names of their own, one block in memory, nothing unpacked beyond
what was allowed.

Of tar it takes plain headers, and the extended ones in which many programs put times and owners. Names, sizes and
links in those, and everything that is not a regular file, are refused. Python's own reader believes more than that:
it loads an extended header whole, however large it says it is.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from jobs.remote_work import FileRefused

BLOCK = 1 << 18
SECTOR = 512
LARGEST_HEADER = 16 * 1024
MOST_PADDING = 1 << 20
MOST_FRUITLESS = 1 << 19
BOMB_RATIO, BOMB_SLACK = 20, 1 << 24
"""An archive unpacks to at most so many times its size, and so many bytes more. Media does not shrink at all."""
_MEANINGFUL = (b"path", b"linkpath", b"size", b"hdrcharset", b"GNU.", b"SCHILY.")


class Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class TooLarge(FileRefused):
    """More than the job may send."""


@dataclass(frozen=True)
class Member:
    name: str
    size: int
    blocks: Iterator[bytes]
    """To be read to its end before the next member."""


def members(stream: Stream, *, limit_of: Callable[[str], int]) -> Iterator[Member]:
    """Each file with its content. `limit_of` gives the largest size of a name, or refuses it. Raises FileRefused."""
    try:
        yield from _members(_Unpacked(stream), limit_of)
    except tarfile.TarError as error:
        raise FileRefused(f"This is not a tar archive: {str(error)[:200]}.") from None


def _members(source: _Unpacked, limit_of: Callable[[str], int]) -> Iterator[Member]:
    seen: set[str] = set()
    extended = False
    while (header := source.sector()).strip(b"\0"):
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        shown = ascii(entry.name[:100])
        if entry.type == tarfile.XHDTYPE and not extended:
            _refuse_meaningful(source, entry.size)
            extended = True
            continue
        extended = False
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or entry.name.endswith("/"):
            raise FileRefused(f"{shown} in the archive is not a regular file.")
        if entry.name in seen:
            raise FileRefused(f"{shown} is in the archive twice.")
        limit = limit_of(entry.name)
        if not 0 <= entry.size <= limit:
            raise TooLarge(f"{shown} may have {limit:,} bytes; the archive says {entry.size:,}.")
        seen.add(entry.name)
        left = source.content(entry.size)
        yield Member(entry.name, entry.size, left)
        for _ in left:  # whatever was not read
            pass
        source.skip(-entry.size % SECTOR)
    source.finish()


def _refuse_meaningful(source: _Unpacked, size: int) -> None:
    if not 0 <= size <= LARGEST_HEADER:
        raise FileRefused(f"The archive has a header of {size:,} bytes.")
    text = b"".join(source.content(size))
    source.skip(-size % SECTOR)
    keys = [line.partition(b" ")[2].partition(b"=")[0] for line in text.split(b"\n")]
    if any(key.startswith(_MEANINGFUL) for key in keys):
        raise FileRefused("The archive has names or sizes in extended headers; use short, plain names.")


class _Packed:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.bytes = 0
        self.fruitless = 0
        """How many of them have come since any were unpacked: headers of gzip may be as long as one likes."""

    def read(self, size: int = -1, /) -> bytes:
        block = self._stream.read(BLOCK if size < 0 else min(size, BLOCK))
        self.bytes += len(block)
        self.fruitless += len(block)
        if self.fruitless > MOST_FRUITLESS:
            raise FileRefused("This is not a .tar.gz archive: nothing comes out of it.")
        return block


class _Unpacked:
    """The archive without its compression, as far as it may unpack."""

    def __init__(self, stream: Stream) -> None:
        self._packed = _Packed(stream)
        self._file = gzip.GzipFile(fileobj=self._packed, mode="rb")  # type: ignore[call-overload]
        self._bytes = 0

    def _read(self, size: int) -> bytes:
        try:
            block: bytes = self._file.read(min(size, BLOCK))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileRefused(f"This is not a .tar.gz archive: {str(error)[:200]}.") from None
        self._bytes += len(block)
        self._packed.fruitless = 0
        if self._bytes > self._packed.bytes * BOMB_RATIO + BOMB_SLACK:
            raise TooLarge("The archive unpacks to far more than it is.")
        return block

    def content(self, size: int) -> Iterator[bytes]:
        while size:
            block = self._read(size)
            if not block:
                raise FileRefused("The archive ends in the middle.")
            size -= len(block)
            yield block

    def sector(self) -> bytes:
        return b"".join(self.content(SECTOR))

    def skip(self, size: int) -> None:
        for _ in self.content(size):
            pass

    def finish(self) -> None:
        """After the last file there is nothing but padding; read it, so that the checksum of gzip is compared."""
        left = MOST_PADDING
        while block := self._read(BLOCK):
            left -= len(block)
            if left < 0 or block.strip(b"\0"):
                raise FileRefused("The archive goes on after its end.")
