"""`make run` on any port: what other commands print leads to it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.processes import wait_until
from tests.support.videos.video_site import clip

PREPARE = """
import django; django.setup()
from django.core.management import call_command
from django.contrib.auth.models import User
call_command("migrate", verbosity=0)
User.objects.create_superuser("admin", password="secret")
"""
"""A site that has been run before: `make run` adds no sample, which would take long."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    own = {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATABASE_URL": f"sqlite:///{tmp_path / 'db.sqlite3'}",
        "MEDIA_ROOT": str(tmp_path / "media"),
        "VIDEOS_MIN_FREE_BYTES": "0",
        "DEBUG": "true",
    }
    left_out = ("PORT", "CSRF_TRUSTED_ORIGINS")
    environment = {name: value for name, value in os.environ.items() if name not in left_out} | own
    subprocess.run([sys.executable, "-c", PREPARE], env=environment, cwd=ROOT, check=True)
    return environment


@contextmanager
def running(environment: dict[str, str], port: int) -> Iterator[None]:
    """`make run PORT=…`, until it answers; then stopped as by Ctrl-C."""
    command = [sys.executable, "-m", "project.quickstart"]
    process = subprocess.Popen(
        command, env=environment | {"PORT": str(port)}, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: process.poll() is not None or answers(port))
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()


def answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def address_printed(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.search(r"http://\S+", done.stdout)
    assert found, done.stdout
    return found[0]


def test_addvideo_and_watchfolder_print_an_address_of_the_running_site(
    environment: dict[str, str], tmp_path: Path
) -> None:
    port, inbox = free_port(), tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "watched.mp4").write_bytes(clip(25).read_bytes())
    with running(environment, port):
        added = address_printed(environment, "addvideo", str(clip(25)), "--slug=added")
        watched = address_printed(environment, "watchfolder", str(inbox), "--once", "--settle=0")
        for address in (added, watched):
            assert address.startswith(f"http://127.0.0.1:{port}/v/")
            with urllib.request.urlopen(address) as answer:
                assert answer.status == 200
    assert not (tmp_path / "media" / "site.json").exists(), "the site has been stopped"
