"""Where servers and databases of tests keep their files, and who removes them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOM = 4 << 30


class GuardedFolder:
    """A temporary folder that is removed by close(), or because the process that made it is gone, however it died.
    `before` is what a shell does first; the folder is its $0."""

    def __init__(self, prefix: str, *, within: str | None = None, before: str = "") -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
        # Its standard input closes with this process.
        self._guard = subprocess.Popen(
            ["sh", "-c", f'cat >/dev/null\n{before}\nrm -rf "$0"', str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def close(self) -> None:
        if self._guard.stdin and not self._guard.stdin.closed:
            self._guard.stdin.close()
            self._guard.wait()


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Whoever else on this machine is at the same thing is waited for."""
    with (Path(tempfile.gettempdir()) / f"sprocket-{name}-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def in_memory() -> str | None:
    """Where files cost no disk, if there is such a place with room for the databases of a run."""
    place = Path("/dev/shm")
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return None
    return str(place) if min(shutil.disk_usage(place).free, _free_memory()) > ROOM else None


def _free_memory() -> int:
    """Bytes, as the kernel sees it and as the limit of a container leaves it."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        return min(free, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no limit
        return free
