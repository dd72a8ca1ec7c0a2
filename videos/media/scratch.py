"""Where ffmpeg writes before it is known whether the result is good."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(within: Path, name: str) -> Iterator[Path]:
    """A folder of its own, on the same disk as the result, gone afterwards."""
    within.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=within))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
