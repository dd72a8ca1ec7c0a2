"""Machines with nothing but a URL and a key, and the web server that they work for: real processes."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections import Counter
from pathlib import Path

from jobs import worker_keys
from jobs.models import Job, Status, Worker, WorkerKind
from tests.conftest import StartManage
from tests.support.processes import CONSOLE_SCRIPT, ManageProcess, free_port, wait_until
from tests.support.queue.workers import wait_for_worker
from tests.support.remote.remote_site import NO_DATABASE
from tests.support.videos.video_site import accept, clip
from tests.support.videos.video_workers import ffmpegs_below, has_ended
from videos import storage
from videos.models import Video

_REQUEST = re.compile(r'"(GET|PUT|POST) /api/worker/jobs/(\w+)/(\S+) HTTP/[\d.]+" (\d+)')


class Server:
    """The web server. `requests("source")` counts what it answered, by job and status, from its own log."""

    def __init__(self, start: StartManage, environment: dict[str, str]) -> None:
        self.port = free_port()
        self._start, self._environment = start, environment
        self._process: ManageProcess
        self._serve()

    def _serve(self, **settings: str) -> None:
        self._process = self._start(
            "runserver",
            "--noreload",
            f"127.0.0.1:{self.port}",
            env=self._environment | {"DJANGO_SETTINGS_MODULE": "tests.settings", "DEBUG": "true"} | settings,
        )
        wait_until(self._accepts)

    def restart(self, **settings: str) -> None:
        """On the same port, with these settings besides."""
        self._process.kill()
        self._process.wait()
        self._serve(**settings)

    def _accepts(self) -> bool:
        assert self._process.poll() is None, self._process.read_output()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def requests(self, what: str) -> Counter[tuple[str, int]]:
        found = _REQUEST.findall(self._process.read_output())
        return Counter((job, int(status)) for _, job, name, status in found if name.startswith(what))


class Work:
    """Videos for the workers. However fast the machine, there are chunks left for the next misfortune."""

    def __init__(self) -> None:
        self.videos: list[Video] = []

    def hand_in(self) -> None:
        self.videos.append(accept(clip(500 + len(self.videos), (640, 480))))

    def keep_up(self) -> None:
        if all(has_ended(video) for video in self.videos):
            self.hand_in()


class Far:
    """A machine with nothing but a URL and a key."""

    def __init__(self, name: str, start: StartManage, folder: Path, port: int) -> None:
        self.name = name
        self.folder = folder
        self.worker = Worker.objects.create(name=name, kind=WorkerKind.REMOTE)
        self.record, self._key = worker_keys.issue(self.worker)
        self._start, self._port = start, port
        self.process: ManageProcess

    def start(self, *arguments: str) -> ManageProcess:
        self.process = self._start(
            "--server",
            f"http://127.0.0.1:{self._port}/api",
            f"--folder={self.folder}",
            "--concurrency=1",
            *arguments,
            program=CONSOLE_SCRIPT,
            env={
                "SPROCKET_KEY": self._key,
                "DATABASE_URL": NO_DATABASE,
                "DJANGO_SETTINGS_MODULE": "",
            },
        )
        return self.process

    def runs(self) -> Job | None:
        """The chunk that its ffmpeg is busy with."""
        job: Job | None = Job.objects.filter(
            worker=self.worker, status=Status.PROCESSING, type="videos.encode"
        ).first()
        return job if job and ffmpegs_below(self.process.pid) else None

    def freeze(self, work: Work) -> Job:
        """Stop the process in the middle of a chunk; which one."""

        def frozen() -> Job | None:
            assert self.process.poll() is None, self.process.read_output()
            work.keep_up()
            if not self.runs():
                return None
            os.kill(self.process.pid, signal.SIGSTOP)
            job = self.runs()  # still?
            if not job:
                os.kill(self.process.pid, signal.SIGCONT)
            return job

        job = wait_until(frozen, timeout=120, interval=0.02)
        assert job is not None
        return job

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def leftovers(self) -> list[Path]:
        """Files of jobs; sources are kept for the next one."""
        return [
            path
            for path in self.folder.rglob("*")
            if path.suffix in (".m4s", ".mp4", ".json")
            and "sources" not in path.relative_to(self.folder).parts
        ]


def local_worker(start: StartManage, environment: dict[str, str], *arguments: str) -> ManageProcess:
    worker = start("runworker", "--concurrency", "1", *arguments, env=environment)
    wait_for_worker(worker)
    return worker


def staged() -> list[Path]:
    return [path for path in storage.workplace().rglob("*") if path.is_file()]
