"""The pipeline as a subject: `videos.intake.accept` at one end, a published generation at the other."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import django

SETTINGS = "benchmarks.video_site.settings"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from benchmarks.subject import Options  # noqa: E402
from benchmarks.video_site import stopwatch  # noqa: E402
from benchmarks.web import WebServer  # noqa: E402
from jobs import lifecycle, worker_keys  # noqa: E402
from jobs.models import Attempt, Job, Worker, WorkerKind  # noqa: E402
from videos import intake, storage  # noqa: E402
from videos.models import Channel, Transcode, Video  # noqa: E402

ADOPTER = Path(__file__).resolve().parent.parent / "video" / "adopter.py"
ENCODE = "videos.encode"
FAR_TYPES = f"{ENCODE},videos.audio"
_LOOK = 0.05


def _at_work_in(folder: str) -> list[int]:
    """The processes that work in (or below) a folder of this name."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if folder in (entry / "cwd").readlink().parts:
                    found.append(int(entry.name))
    return found


class Pipeline:
    """No `Subject` of no-op jobs: nothing is enqueued by its callers, what they ask of it instead are uploads."""

    def __init__(self) -> None:
        self._server: WebServer | None = None

    def prepare(self) -> None:
        call_command("migrate", verbosity=0)
        tables = [n for n in connection.introspection.table_names() if n.startswith(("jobs_", "videos_"))]
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
        shutil.rmtree(storage.root(), ignore_errors=True)
        stopwatch.path().unlink(missing_ok=True)

    def unfinished(self) -> int:
        return int(Job.objects.active().count())

    def workers(self, options: Options) -> list[list[str]]:
        """`workers` of them with so much `concurrency`, each in the arms of an adopter; or a `split`: one for what may
        run far away, here or over HTTP, and one for the rest."""
        local = [sys.executable, "-m", "django", "runworker", "--settings", SETTINGS]
        commands: list[list[str]]
        match options.get("split"):
            case "far":
                self._server = WebServer(SETTINGS)
                rest = [*local, "--exclude-types", FAR_TYPES, "--name", "rest"]
                commands = [self._server.command(), self._far_worker(self._server.api), rest]
            case "local":
                kept = [*local, "--types", FAR_TYPES, "--name", "encoder"]
                commands = [kept, [*local, "--exclude-types", FAR_TYPES, "--name", "rest"]]
            case _:
                if "concurrency" in options:
                    local += ["--concurrency", str(options["concurrency"])]
                numbers = range(int(options.get("workers", 1)))
                commands = [[*local, "--name", f"worker-{number}"] for number in numbers]
        return [["python", "-I", "-S", str(ADOPTER), *command] for command in commands]

    def _far_worker(self, api: str) -> list[str]:
        worker = Worker.objects.create(name="far", kind=WorkerKind.REMOTE)
        _, key = worker_keys.issue(worker)
        folder = Path(os.environ["BENCH_FOLDER"]) / "far"
        shutil.rmtree(folder, ignore_errors=True)
        program = "from jobs.worker.console import main; main()"
        return [
            *(sys.executable, "-c", program, "--server", api, "--key", key),
            *("--types", FAR_TYPES, "--folder", str(folder)),
        ]

    # What only the video measures ask for:

    def online(self) -> int:
        """How many of its processes are ready: workers, and a web server if there is one."""
        ready = int(Worker.objects.online().filter(last_heartbeat__isnull=False).count())
        return ready + (self._server is not None and self._server.answers())

    def upload(self, path: str) -> dict[str, Any]:
        """Accept the file: whose video it is, when the call began, and its CPU time."""
        channel, _ = Channel.objects.get_or_create(slug="bench", defaults={"name": "Bench"})
        began, cpu = time.monotonic(), time.process_time()
        video = intake.accept(Path(path), channel=channel)
        return {"video": video.pk, "began": began, "cpu": time.process_time() - cpu}

    def wait_until_ready(self, video: str, timeout: float) -> float:
        """When the video was seen to be ready."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            status, error = Video.objects.values_list("status", "error_message").get(pk=video)
            if status == "ready":
                return time.monotonic()
            if status == "failed":
                raise RuntimeError(f"the video failed: {error}")
            time.sleep(_LOOK)
        raise TimeoutError(f"the video was not ready within {timeout:g} s")

    def find_victim(self, percent: float, timeout: float) -> int:
        """The process of a worker that has encoded so much of a chunk, as soon as there is one."""
        running = Job.objects.leased().filter(type=ENCODE, progress_percent__gte=percent)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            pid = running.values_list("worker__pid", flat=True).first()
            if pid is not None:
                return int(pid)
            time.sleep(_LOOK)
        raise TimeoutError(f"no worker was found in the middle of a chunk within {timeout:g} s")

    def cancel_far_chunk(self, percent: float, timeout: float) -> float:
        """Cancel a chunk of the far worker at so many percent; the seconds until its ffmpeg is gone."""
        running = Job.objects.leased().filter(type=ENCODE, worker__name="far", progress_percent__gte=percent)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            job = running.first()
            pids = _at_work_in(f"{job.pk}-{job.lease_token}") if job else []
            if job and pids:
                lifecycle.cancel([job.pk], reason="measured")
                began = time.monotonic()
                while any(Path(f"/proc/{pid}").exists() for pid in pids):
                    time.sleep(0.005)
                return time.monotonic() - began
            time.sleep(_LOOK)
        raise TimeoutError(f"the far worker was not in the middle of a chunk within {timeout:g} s")

    def folder(self, video: str) -> str:
        return str(storage.generation(Transcode.objects.get(video_id=video)))

    def plan(self, video: str) -> dict[str, Any] | None:
        return Transcode.objects.values_list("plan", flat=True).get(video_id=video)

    def encodes(self) -> dict[str, int]:
        """How the runs of chunks have ended."""
        return Counter(Attempt.objects.filter(job__type=ENCODE).values_list("outcome", flat=True))

    def gaps(self) -> dict[str, float]:
        """By type: from the end of the last handler that a job waited for to the beginning of its own."""
        runs = stopwatch.runs()
        needs: dict[str, list[str]] = {}
        for job, parent in Job.objects.filter(parent__isnull=False).values_list("pk", "parent_id"):
            needs[job] = [parent]
        for job, needed in Job.objects.filter(prerequisites__isnull=False).values_list(
            "pk", "prerequisites__needs_id"
        ):
            needs[job].append(needed)
        types = dict(Job.objects.values_list("pk", "type"))
        return {
            types[job]: runs[job][0] - max(runs[needed][1] for needed in awaited)
            for job, awaited in needs.items()
        }


def subject() -> Pipeline:
    return Pipeline()
