"""Commands whose database is away, or waits for its migrations: a sentence and an exit code, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.processes import free_port

EVERY_COMMAND = [
    ["jobs", "status"],
    ["enqueue", "demo.count"],
    ["reconcile"],
    ["check_invariants"],
    ["prune_jobs"],
    ["stafftoken", "ada"],
    ["videos", "retry", "film"],
]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("pool", ["0", "10"])
def test_a_database_that_is_away(pool: str) -> None:
    nobody_there = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    done = run("jobs", "status", DATABASE_URL=nobody_there, DATABASE_POOL=pool)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Connection refused" in done.stderr
    assert "DATABASES" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", [["migrate"], ["createsuperuser", "--no-input", "--username=ada"]], ids=lambda c: c[0]
)
def test_djangos_own_commands_say_it_too(command: list[str]) -> None:
    nobody_there = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    done = run(*command, DATABASE_URL=nobody_there, DATABASE_POOL="10")
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert "DATABASE_URL" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    shown = run(*command, "--traceback", DATABASE_URL=nobody_there)
    assert (shown.returncode, "Traceback" in shown.stderr) == (1, True)


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command[0])
def test_a_database_that_waits_for_its_migrations(command: list[str], tmp_path: Path) -> None:
    done = run(*command, DATABASE_URL=f"sqlite:///{tmp_path / 'new.sqlite3'}")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "jobs.0001_initial" in line
    assert "manage.py migrate" in line


def test_whoever_wants_to_see_the_traceback_sees_it(tmp_path: Path) -> None:
    done = run("jobs", "--traceback", "status", DATABASE_URL=f"sqlite:///{tmp_path / 'new.sqlite3'}")
    assert done.returncode == 1
    assert "OperationalError: no such table" in done.stderr
