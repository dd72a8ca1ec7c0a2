"""Wake-ups on one host, for SQLite: each worker of a database file owns a datagram socket in a private folder."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from jobs import database

log = logging.getLogger("jobs.wakeup")


def _folder() -> Path:
    """Known to every process of this user that uses the same database file."""
    name = str(database.connection().settings_dict["NAME"])
    digest = hashlib.sha256(os.path.realpath(name).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"jobs-{os.getuid()}-{digest}"


def _is_private(folder: Path) -> bool:
    """Nobody else may have made the folder, or may write to it."""
    status = folder.lstat()
    return status.st_uid == os.getuid() and not folder.is_symlink() and status.st_mode & 0o077 == 0


def notify() -> None:
    folder = _folder()
    if not folder.is_dir() or not _is_private(folder):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for path in folder.glob("*.sock"):
            try:
                sender.sendto(b"1", str(path))
            except BlockingIOError:
                pass  # its buffer is full of hints already
            except OSError:
                path.unlink(missing_ok=True)  # its worker is gone


class LocalEar:
    def __init__(self, on_hint: Callable[[], None]) -> None:
        self._on_hint = on_hint
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ear", daemon=True)
        self._path: Path | None = None
        self._socket: socket.socket | None = None

    def start(self) -> None:
        folder = _folder()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(folder):
                raise OSError(f"{folder} belongs to somebody else")
            self._path = folder / f"{os.getpid()}.sock"
            self._path.unlink(missing_ok=True)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.bind(str(self._path))
        except OSError as error:
            log.warning("no local wake-ups (%s); jobs are found by polling", error)
            return
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._path:
            self._path.unlink(missing_ok=True)
        if self._socket:
            self._socket.close()

    def _run(self) -> None:
        assert self._socket is not None
        self._socket.settimeout(1.0)
        while not self._stopping.is_set():
            try:
                self._socket.recv(16)
            except TimeoutError:
                continue
            except OSError:
                return
            self._on_hint()
