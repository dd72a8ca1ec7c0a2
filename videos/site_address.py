"""Where visitors find the site: for what commands print, as they have no request to ask."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from jobs import processes
from videos import conf

RUNSERVER = "http://127.0.0.1:8000"


def likely_site() -> str:
    """The first origin whose forms the site trusts, named by every site behind HTTPS; else the address that a site
    of this machine has announced and still serves; else where `runserver` is by default."""
    named: list[str] = [origin for origin in settings.CSRF_TRUSTED_ORIGINS if "*" not in origin]
    return named[0] if named else _announced() or RUNSERVER


@contextlib.contextmanager
def announced(address: str) -> Iterator[None]:
    """While this block runs, commands on this machine print addresses below this one."""
    note = _note()
    note.parent.mkdir(parents=True, exist_ok=True)
    content = {"address": address, "pid": os.getpid(), "start": processes.start_mark(os.getpid())}
    temporary = note.with_name(f"{note.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content))
    temporary.replace(note)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            if json.loads(note.read_text()) == content:  # not one that another process has announced since
                note.unlink()


def _announced() -> str:
    """Empty: nobody has announced an address, or that process has ended."""
    try:
        said = json.loads(_note().read_text())
        return "" if processes.is_gone(said["pid"], said["start"]) else str(said["address"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _note() -> Path:
    """Beside the videos: a command that adds a video has the same folder as the site that shows it."""
    return conf.current().folder / "site.json"
