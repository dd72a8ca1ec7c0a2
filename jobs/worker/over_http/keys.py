"""Where a worker's key comes from: a file, the environment, the command line, or a registration."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection
from pathlib import Path

import httpx

from jobs import fleet
from jobs.exceptions import WorkerDismissed, WorkerRefused
from jobs.worker.over_http.arguments import KEY_VARIABLE, SECRET_VARIABLE
from jobs.worker.over_http.connection import (
    TIMEOUT,
    NotSprocket,
    Refused,
    Rest,
    Unreachable,
    as_unreachable,
    make_client,
    read_answer,
)

_FORM = re.compile(r"[A-Za-z0-9_-]{16,200}")


class NoKey(ValueError):
    """There is no key, or what was given is none; the message says what to do."""


def stored_key(folder: Path, server: str) -> Path:
    """Where the key of a registration is kept. One for each server: no key is ever shown to another one."""
    return folder / f"key-{hashlib.sha256(server.encode()).hexdigest()[:16]}"


def find_key(*, key: str | None, key_file: Path | None, stored: Path) -> str:
    """By what was given, else by the environment, else the one that a registration has left."""
    inherited = os.environ.pop(KEY_VARIABLE, "")  # handlers and what they start have no use for it
    if key:
        return _checked(key, "--key")
    if key_file is not None:
        return _checked(_read(key_file), str(key_file))
    if inherited:
        return _checked(inherited, KEY_VARIABLE)
    if stored.exists():
        return _checked(_read(stored), str(stored))
    raise NoKey(
        f"There is no key: give one with --key-file FILE or in {KEY_VARIABLE}. "
        "An administrator issues it in the admin, under Workers; or register with --register NAME."
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise NoKey(f"The key file {path} cannot be read: {reason}.") from None


def _checked(key: str, where: str) -> str:
    if not _FORM.fullmatch(key.strip()):
        raise NoKey(f"What {where} holds is not a worker's key: those have 43 letters, digits, - and _.")
    return key.strip()


def register(server: str, name: str, types: Collection[str], *, into: Path) -> None:
    """Register under this name with the admin secret; the key goes into a file that only its owner can read."""
    secret = os.environ.pop(SECRET_VARIABLE, "")
    if not secret:
        raise NoKey(f"--register needs the site's JOBS['WORKER_ADMIN_SECRET'] in {SECRET_VARIABLE}.")
    try:
        into.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise WorkerRefused(f"The key cannot be kept in {into}: {problem.strerror}.") from None
    try:
        key = _ask_for_key(server, name, secret, types)
        with os.fdopen(descriptor, "w") as file:
            file.write(key + "\n")
    except BaseException:
        into.unlink(missing_ok=True)
        raise


def _ask_for_key(server: str, name: str, secret: str, types: Collection[str]) -> str:
    told = {"name": name, "types": sorted(types), "version": fleet.current_version()[:50]}
    try:
        with make_client(TIMEOUT, connections=1) as client:
            headers = httpx.Headers({b"X-Admin-Secret": secret.encode()})
            response = client.post(f"{server}/worker/register", json=told, headers=headers)
        answer = read_answer(response, Rest())
        return _checked(str(answer["api_key"]), "the server's answer")
    except httpx.HTTPError as error:
        raise WorkerRefused(f"{server} is out of reach: {as_unreachable(error)}") from None
    except WorkerDismissed:
        raise WorkerRefused(f"{server} does not register this worker: {SECRET_VARIABLE} is wrong.") from None
    except Refused as refusal:
        raise WorkerRefused(f"{server} does not register this worker: {refusal.detail}") from None
    except (NotSprocket, KeyError, NoKey) as problem:
        raise WorkerRefused(f"{server} is not the API of a Sprocket site: {problem}.") from None
    except Unreachable as problem:
        raise WorkerRefused(f"{server} does not register this worker now: {problem}") from None
