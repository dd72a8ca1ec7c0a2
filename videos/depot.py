"""The storage that keeps the videos where the disk does not: VIDEOS["STORAGE"] is its name in Django's STORAGES.

The folder ROOT/cache of a machine then has copies, and what is not kept yet. A file has one name in both: that of its
path below the cache. So `put` and `get` take paths. See docs/storage.md.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from django.core.files import File
from django.core.files.storage import Storage, storages

from jobs import RetryLater
from videos import conf, storage
from videos.serving import TYPES

LOCAL = "local"
RETRY_AFTER = 10.0
"""Seconds after which a job tries again that found the storage down."""


class StorageDown(RetryLater):
    """It does not answer, or is too busy. In a job this takes no attempt: the job is not to blame."""

    def __init__(self, error: Exception) -> None:
        super().__init__(RETRY_AFTER, f"The storage of the videos does not answer: {error}", counted=False)


class StorageRefused(Exception):
    """It answers, and says no: a wrong key, no such bucket, no right to write."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"The storage of the videos refuses: {reason}")


class Depot:
    """Any Django storage that writes a file under the name it is given. Files go out through the site."""

    def __init__(self, behind: Storage) -> None:
        self._storage = behind

    # -- what a kind of storage may do better ------------------------------------------------------------------------

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Raises StorageDown, StorageRefused or FileNotFoundError for whatever the storage itself raises."""
        try:
            yield
        except (ConnectionError, TimeoutError) as error:
            raise StorageDown(error) from error

    def problems(self) -> list[str]:
        """Why this storage must not be used."""
        return []

    def signed_url(self, path: Path, *, seconds: int, method: str = "GET") -> str | None:
        """An address of the file that is good for so long; None: this storage has no such."""
        return None

    def blocks(self, name: str) -> Iterator[bytes]:
        with self._storage.open(name) as file:
            yield from file.chunks()

    def _sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        folders, files = self._listed(prefix)
        for name in files:
            yield f"{prefix}/{name}", self._storage.size(f"{prefix}/{name}")
        for folder in folders:
            yield from self._sizes(f"{prefix}/{folder}")

    def _size(self, name: str) -> int | None:
        return self._storage.size(name) if self._storage.exists(name) else None

    def _listed(self, prefix: str) -> tuple[list[str], list[str]]:
        try:
            return self._storage.listdir(prefix)
        except FileNotFoundError:
            return [], []

    def _delete(self, prefix: str) -> None:
        for name, _ in list(self._sizes(prefix)):
            self._storage.delete(name)

    def _copy(self, name: str, to: str) -> None:
        with self._storage.open(name) as file:
            self._save(to, file)

    # -- files ---------------------------------------------------------------------------------------------------------

    def put(self, file: Path, path: Path | None = None) -> None:
        """Keep a file under its own path, or another one. Whoever reads it sees what was there before, or all of it."""
        with self.answering(), file.open("rb") as opened:
            self._save(storage.name_below(path or file), File(opened))

    def _save(self, name: str, content: File[Any]) -> None:
        content.content_type = TYPES.get(Path(name).suffix, "application/octet-stream")  # type: ignore[attr-defined]
        stored = self._storage.save(name, content)
        if stored != name:
            self._storage.delete(stored)
            raise StorageRefused(f"it would not write {name} in place of what is there; let it overwrite.")

    def get(self, path: Path, *, told: Callable[[int], None] = lambda size: None) -> None:
        """The file to its path in the cache, all of it or nothing. Raises FileNotFoundError.

        `told` how many bytes are here.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
        size = 0
        try:
            with self.answering(), temporary.open("wb") as file:
                for block in self.blocks(storage.name_below(path)):
                    size += file.write(block)
                    told(size)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, path: Path) -> bytes | None:
        """A small file; None when there is none."""
        try:
            with self.answering():
                return b"".join(self.blocks(storage.name_below(path)))
        except FileNotFoundError:
            return None

    def open(self, path: Path) -> BinaryIO:
        """To be read from any place. Raises FileNotFoundError."""
        with self.answering():
            return cast(BinaryIO, self._storage.open(storage.name_below(path)))

    def size(self, path: Path) -> int | None:
        with self.answering():
            return self._size(storage.name_below(path))

    def copy(self, path: Path, to: Path) -> None:
        with self.answering():
            self._copy(storage.name_below(path), storage.name_below(to))

    # -- folders -------------------------------------------------------------------------------------------------------

    def sizes(self, folder: Path) -> dict[str, int]:
        """Every file below a folder, with its size."""
        name = storage.name_below(folder)
        with self.answering():
            return {found.removeprefix(f"{name}/"): size for found, size in self._sizes(name)}

    def folders(self, folder: Path) -> list[Path]:
        with self.answering():
            name = storage.name_below(folder)
            return [folder / found for found in sorted(self._listed("" if name == "." else name)[0])]

    def changed(self, folder: Path) -> datetime | None:
        """When a file below was last written."""
        with self.answering():
            names = [name for name, _ in self._sizes(storage.name_below(folder))]
            return max(map(self._storage.get_modified_time, names), default=None)

    def remove(self, folder: Path) -> None:
        with self.answering():
            self._delete(storage.name_below(folder))


_made: tuple[Storage, Depot] | None = None


def current() -> Depot | None:
    """None: the disk keeps the videos."""
    global _made
    alias = conf.current().storage
    if alias == LOCAL:
        return None
    behind = storages[alias]
    if _made is None or _made[0] is not behind:
        _made = behind, _depot_of(behind)
    return _made[1]


def _depot_of(behind: Storage) -> Depot:
    if type(behind).__module__.startswith("django."):
        return Depot(behind)
    try:
        from storages.backends.s3 import S3Storage
    except ImportError:
        return Depot(behind)
    if not isinstance(behind, S3Storage):
        return Depot(behind)
    from videos.s3_depot import S3Depot

    return S3Depot(behind)


# -- wherever they are kept --------------------------------------------------------------------------------------------


def size_of(path: Path) -> int | None:
    """Of a file that is kept; None when there is none."""
    kept = current()
    if kept is not None:
        return kept.size(path)
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def sizes(folder: Path) -> dict[str, int]:
    """Every file that is kept below a folder, with its size."""
    kept = current()
    return dict(_on_disk(folder, "")) if kept is None else kept.sizes(folder)


def _on_disk(folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _on_disk(Path(entry.path), f"{prefix}{entry.name}/")
        elif entry.is_file():
            yield f"{prefix}{entry.name}", entry.stat().st_size


def remove(folder: Path) -> None:
    """Remove a folder of videos with all that is in it, wherever it is kept. Resumable."""
    kept = current()
    if kept is not None:
        kept.remove(folder)
    storage.remove(folder)
