"""The Pythons of this machine, also those that pyenv keeps to itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

OLDEST, NEWEST = "3.11", "3.13"
"""What pyproject.toml names."""


def find(version: str) -> Path | None:
    """A Python of this version ("3.13") that works."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}"), *sorted(home.glob(f"versions/{version}.*/bin/python"))]
    return next((Path(found) for found in candidates if found and _is(Path(found), version)), None)


def _is(python: Path, version: str) -> bool:
    """A shim of pyenv is there also for a version that is not chosen; and Debian's python3 may come without venv."""
    question = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        asked = subprocess.run([python, "-c", question], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return asked.stdout.strip() == version
