"""A site with a web server, and remote workers beside it that cannot reach its database: real processes."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from jobs import remote, worker_keys
from jobs.models import Worker
from jobs.remote import Announcement
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import AS_JSON, CONSOLE_SCRIPT, ManageProcess, free_port, wait_until
from tests.support.queue.workers import QUICK
from tests.support.servers.wire import Wire

NO_DATABASE = "postgresql://nobody@127.0.0.1:1/nothing"
SETTINGS = "tests.remoteapp.settings"


class RemoteSite:
    def __init__(self, start: StartManage, folder: Path) -> None:
        self._start = start
        self._folder = folder
        self._port = free_port()
        self.wire = Wire(self._port)
        self.url = f"http://127.0.0.1:{self._port}/api"
        self.wire_url = f"http://127.0.0.1:{self.wire.port}/api"
        self._settings: dict[str, str] = {}
        self.server: ManageProcess | None = None
        self._workers = 0

    # -- the server ----------------------------------------------------------------------------------------------------

    def serve(self, **settings: str) -> None:
        """Start the web server, or start it again on the same port, with these settings besides."""
        self._settings |= settings
        env = {"ALLOWED_HOSTS": "127.0.0.1", "DJANGO_SETTINGS_MODULE": SETTINGS, **QUICK, **self._settings}
        self.server = self._start("runserver", "--noreload", f"127.0.0.1:{self._port}", env=env)
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self.server is not None
        assert self.server.poll() is None, self.server.read_output()
        try:
            urllib.request.urlopen(f"{self.url}/worker/health", timeout=10).close()
        except urllib.error.HTTPError:
            return True
        except (urllib.error.URLError, OSError):
            return False
        return True

    def kill_server(self) -> None:
        assert self.server is not None
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()

    # -- workers -------------------------------------------------------------------------------------------------------

    def key(self, name: str = "far-away", **told: Any) -> str:
        _, _, key = remote.register(name, Announcement(**told))
        return key

    def further_key(self, name: str = "far-away") -> str:
        return worker_keys.issue(Worker.objects.get(name=name))[1]

    def folder(self, number: int = 1) -> Path:
        return self._folder / f"worker-{number}"

    def work(
        self,
        *arguments: str,
        key: str | None = None,
        server: str = "",
        script: bool = True,
        env: dict[str, str] | None = None,
        folder: Path | None = None,
    ) -> ManageProcess:
        """Start a remote worker, by sprocket-worker or by manage.py."""
        self._workers += 1
        place = folder or self.folder(self._workers)
        given = ["--server", server or self.wire_url, "--folder", str(place), *arguments]
        environment = {
            "DATABASE_URL": NO_DATABASE,
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "JOBS_DRAIN_TIMEOUT": "1h",
            **AS_JSON,
            **({"SPROCKET_KEY": key} if key else {}),
            **(env or {}),
        }
        if script:
            return self._start(*given, "--app", "tests.remoteapp", program=CONSOLE_SCRIPT, env=environment)
        return self._start("runworker", *given, env=environment)

    def files(self) -> list[str]:
        """What the workers have left in their folders, besides locks, keys and the cache."""
        return sorted(
            str(path.relative_to(self._folder))
            for path in self._folder.glob("worker-*/run/*")
            if path.suffix != ".lock"
        )


def is_ready(worker: ManageProcess) -> bool:
    assert worker.poll() is None, worker.read_output()
    return "is ready" in worker.read_output()


def started(worker: ManageProcess, log: str, count: int = 1) -> list[dict[str, Any]]:
    """What the handlers of so many jobs have noted when they began."""

    def begun() -> list[dict[str, Any]]:
        notes = read_notes(log, "started")
        assert worker.poll() is None, worker.read_output()
        return notes if len(notes) >= count else []

    return wait_until(begun)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def stop(worker: ManageProcess) -> int:
    os.kill(worker.pid, signal.SIGTERM)
    return worker.wait(timeout=120)
