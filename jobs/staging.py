"""Where files of remote workers arrive: a folder for each lease, gone when the lease is.

<staging of the type>/<job>-<token>/           what has arrived, under the names that the job may write
<staging of the type>/<job>-<token>/.arriving/ what is arriving
"""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.dispatch import receiver

from jobs import database, registry
from jobs.lifecycle import Lease
from jobs.models import Job, Status
from jobs.reconcile import Finding, also_repairs
from jobs.remote_work import FileRefused, RemoteWork
from jobs.signals import Transition, jobs_changed

log = logging.getLogger("jobs.staging")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,4}")
_FOLDER = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})-([0-9]{1,19})")


def check_name(name: str) -> str:
    """Relative, plain ASCII, no part that begins with a dot: whatever a type allows, nothing else is ever a path."""
    if not _NAME.fullmatch(name):
        raise FileRefused(f"{_shown(name)} is not the name of a file that a job may write.")
    return name


def not_allowed(name: str) -> FileRefused:
    return FileRefused(f"{_shown(name)} is not a file that this job may write.")


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 100 else f"{name[:100]}…")


def folder_of(work: RemoteWork, lease: Lease) -> Path:
    place = work.staging()
    assert place is not None, "a type that allows files has a place for them"
    return place / f"{lease.job_id}-{lease.token}"


@contextmanager
def arriving(staged: Path) -> Iterator[Path]:
    """An empty folder for what is not whole yet, on the same disk; gone afterwards."""
    room = staged / ".arriving"
    room.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=room))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(path: Path, staged: Path, name: str) -> None:
    """A file that is whole to its place in the folder of the lease."""
    target = staged / name
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)


def remove(staged: Path) -> None:
    shutil.rmtree(staged, ignore_errors=True)


# -- when a lease is over ----------------------------------------------------------------------------------------------


@receiver(jobs_changed, dispatch_uid="jobs.staging")
def clean_up(sender: Any, transitions: Iterable[Transition], **kwargs: Any) -> None:
    """Without a query: the folders of a job that is no longer running are those of leases that are over."""
    over = [
        (place, transition.job_id)
        for transition in transitions
        if transition.before == Status.PROCESSING and (place := _place_of(transition.type)) is not None
    ]
    if over:
        database.on_commit(lambda: _remove_all(over))


def _place_of(type_name: str) -> Path | None:
    kind = registry.find(type_name)
    work = kind.remote_work if kind else None
    return work.staging() if work else None


def _remove_all(over: list[tuple[Path, str]]) -> None:
    for place, job_id in over:
        for folder in place.glob(f"{job_id}-*"):
            remove(folder)


@also_repairs
def remove_abandoned(dry_run: bool) -> list[Finding]:
    """What a server left that was killed while a file arrived, or before it had cleaned up."""
    places = {place for kind in registry.all_types() if (place := _place_of(kind.name)) is not None}
    # The folders first: whoever makes one has the lease already.
    folders = [(folder, match) for place in places for folder, match in _folders(place)]
    if not folders:
        return []
    ids = frozenset(match[1] for _, match in folders)
    running = Job.objects.filter(pk__among=ids, status=Status.PROCESSING)
    live = {f"{job_id}-{token}" for job_id, token in running.values_list("pk", "lease_token")}
    findings = []
    for folder, match in folders:
        if folder.name not in live:
            if not dry_run:
                remove(folder)
            findings.append(Finding(match[1], "files", "arrived", "removed", "their lease is over"))
    return findings


def _folders(place: Path) -> list[tuple[Path, re.Match[str]]]:
    if not place.is_dir():
        return []
    return [
        (path, match)
        for path in sorted(place.iterdir())
        if (match := _FOLDER.fullmatch(path.name)) and path.is_dir() and not path.is_symlink()
    ]
