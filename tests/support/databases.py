"""A pytest plugin: gives the suite its database, before Django reads its settings.

`--database=postgresql` starts a server of its own, or takes the one that DATABASE_URL names;
`--database=sqlite` uses a file in a temporary folder. With `-n`, each of pytest's processes has one of its own.
"""

import contextlib
import os
import signal
import tempfile
from types import FrameType
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.servers.postgres_server import PostgresServer

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
    if getattr(options, "numprocesses", None) and not is_crew_member:
        return  # the tests run in other processes, each with a database of its own
    if options.database == "sqlite":
        folder = tempfile.TemporaryDirectory(prefix="sprocket-sqlite-")
        early_config.add_cleanup(folder.cleanup)
        os.environ["DATABASE_URL"] = f"sqlite:///{quote(folder.name)}/db.sqlite3"
    elif not os.environ.get("DATABASE_URL", "").startswith(("postgres", "psql", "pgsql")):
        server = PostgresServer()
        early_config.add_cleanup(server.close)
        early_config.stash[server_key] = server
        os.environ["DATABASE_URL"] = server.url


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


@pytest.hookimpl(optionalhook=True, tryfirst=True)  # nox does without pytest-xdist
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
