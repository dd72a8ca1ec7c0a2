"""The disk: how long it takes to make a few kilobytes durable, since every commit waits for that."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

_BLOCK = bytes(8192)


def sync_milliseconds(folder: Path, times: int = 100) -> float:
    """The median of appending 8 KiB and syncing it."""
    taken = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(times):
            begin = time.perf_counter()
            file.write(_BLOCK)
            file.flush()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - begin)
    return median(taken) * 1000
