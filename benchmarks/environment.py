"""The peers' own virtual environment, made on first use and again whenever its requirements change."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE / ".venv-peers"
REQUIREMENTS = HERE / "requirements-peers.txt"
PYTHON = FOLDER / "bin" / "python"
_STAMP = FOLDER / "requirements.sha256"


def ensure() -> None:
    """Make the environment unless it is there and matches its requirements."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if _STAMP.exists() and _STAMP.read_text() == wanted:
        return
    print(f"installing the peers into {FOLDER.relative_to(HERE.parent)} (once) …", file=sys.stderr)
    venv.create(FOLDER, with_pip=True, clear=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS], check=True)
    _STAMP.write_text(wanted)


def versions() -> dict[str, str]:
    """Installed versions of everything in the environment, for the record."""
    listing = subprocess.run(
        [PYTHON, "-m", "pip", "freeze"], check=True, capture_output=True, text=True
    ).stdout
    return dict(line.split("==", 1) for line in listing.splitlines() if "==" in line)


def site_packages() -> Path:
    return next(FOLDER.glob("lib/python*/site-packages"))
