"""Where a remote worker keeps its files. Each process has a folder of its own, locked while it lives:

<folder>/run/<random>/<job>-<token>/     of one running job
<folder>/run/<random>.lock               held by the living process; what nobody holds was left by one that was killed
<folder>/sources/                        see source_cache.py
<folder>/worker-<digest of key>.lock     one process for each key
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
from pathlib import Path

from jobs.exceptions import WorkerRefused


def default_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state else Path.home() / ".local" / "state") / "sprocket-worker"


class WorkFolder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources = root / "sources"
        self.own: Path | None = None
        self._locks: list[int] = []

    def open(self, key: str) -> None:
        """Take a folder for this process, and remove those of processes that are gone."""
        runs = self.root / "run"
        try:
            runs.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.sources.mkdir(mode=0o700, exist_ok=True)
            digest = hashlib.sha256(key.encode()).hexdigest()[:16]
            mine = _lock(self.root / f"worker-{digest}.lock")
            if mine is None:
                raise WorkerRefused(f"A worker with this key is running already, in {self.root}.")
            self._locks.append(mine)
            _remove_abandoned(runs)
            name = secrets.token_hex(8)
            lock = _lock(runs / f"{name}.lock")
            assert lock is not None, "nobody else knows this name"
            self._locks.append(lock)
            self.own = runs / name
            self.own.mkdir(mode=0o700)
        except OSError as problem:
            raise WorkerRefused(f"The folder {self.root} cannot be used: {problem.strerror}.") from None

    def of_job(self, job_id: str, token: int) -> Path:
        assert self.own is not None
        return self.own / f"{job_id}-{token}"

    def close(self) -> None:
        if self.own is not None:
            shutil.rmtree(self.own, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.own.with_name(f"{self.own.name}.lock").unlink()
            self.own = None
        while self._locks:
            os.close(self._locks.pop())


def _lock(path: Path) -> int | None:
    """The locked file's descriptor, which no child process inherits; None: another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_abandoned(runs: Path) -> None:
    for path in sorted(runs.glob("*.lock")):
        descriptor = _lock(path)
        if descriptor is None:
            continue
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
        path.unlink(missing_ok=True)
        os.close(descriptor)
