"""The real site, as people run it: a database of its own, a web server, a worker."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg

from tests.support import ROOT
from tests.support.browser.backstage import Backstage
from tests.support.databases import MIGRATED
from tests.support.processes import ManageProcess, free_port, wait_until

HOST = "127.0.0.1"
DATABASE = "sprocket_browser"

WORKER_NAME = "browser-test-worker"

QUICK = {
    "JOBS_TICK_INTERVAL": "200ms",
    "JOBS_HEARTBEAT_INTERVAL": "1s",
    "JOBS_BACKOFF_BASE": "100ms",
    "VIDEOS_SEGMENT_SECONDS": "2",
    "VIDEOS_SEGMENTS_PER_CHUNK": "2",
    "VIDEOS_PRESET": "ultrafast",
    "VIDEOS_TRANSCRIBER": "off",
}
"""Short segments and quick encodes, so that a clip of some seconds has several chunks."""


class Site:
    """Started on creation. `url` is where it is, `backstage` reaches its database."""

    def __init__(
        self, folder: Path, *, database: str, settings: str = "tests.settings", worker: str = WORKER_NAME
    ) -> None:
        self.folder = folder
        self.url = f"http://{HOST}:{free_port()}"
        self.environment = {
            **os.environ,
            **QUICK,
            "DATABASE_URL": _fresh_database(folder, database),
            "DJANGO_SETTINGS_MODULE": settings,
            "ALLOWED_HOSTS": HOST,
            "MEDIA_ROOT": str(folder / "media"),
            "LOG_LEVEL": "WARNING",
            "PYTHONUNBUFFERED": "1",
        }
        self._processes: list[ManageProcess] = []
        if MIGRATED not in os.environ or settings != "tests.settings":
            self._manage("migrate", "--verbosity=0")
        self.backstage = Backstage(self.environment)
        # --insecure: static files without DEBUG, whose error pages nobody will see in production
        self.start("runserver", "--noreload", "--insecure", self.url.removeprefix("http://"))
        self.worker = self.start("runworker", f"--name={worker}")
        wait_until(self._answers)

    def start(self, *arguments: str) -> ManageProcess:
        """A `manage.py` command beside the others; ended with them."""
        name = f"{len(self._processes)}-{arguments[0]}.log"
        process = ManageProcess(*arguments, env=self.environment, output=self.folder / name)
        self._processes.append(process)
        return process

    def forget(self, process: ManageProcess) -> None:
        """It has ended, as it should."""
        self._processes.remove(process)

    def output(self) -> str:
        """What its processes have printed."""
        return "\n".join(f"{process.title}:\n{process.read_output()}" for process in self._processes)

    def close(self) -> None:
        self.backstage.close()
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.kill_group()

    def _manage(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "manage.py", *arguments], env=self.environment, cwd=ROOT, check=True, timeout=240
        )

    def _answers(self) -> bool:
        ended = [process for process in self._processes if process.poll() is not None]
        assert not ended, self.output()
        try:
            urllib.request.urlopen(f"{self.url}/admin/login/", timeout=10).close()
        except (urllib.error.URLError, TimeoutError):
            return False
        return True


def _fresh_database(folder: Path, kind: str) -> str:
    """The DATABASE_URL of a database without rows: a file, or one more on the PostgreSQL server of this run. Where this
    run has a migrated one, it is a copy of that."""
    migrated = os.environ.get(MIGRATED)
    if kind == "sqlite":
        file = folder / "site.sqlite3"
        if migrated:
            shutil.copyfile(migrated, file)
        return f"sqlite:///{quote(str(file))}"
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {migrated or 'template1'}")
    return urlsplit(server)._replace(path=f"/{DATABASE}").geturl()
