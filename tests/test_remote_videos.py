"""Videos made by remote workers: a real web server, `sprocket-worker` processes, each with a folder and no database."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from jobs import worker_keys
from jobs.models import Attempt, Job, Outcome, Status, Worker, WorkerKind
from tests.conftest import StartManage
from tests.remote_site import NO_DATABASE, SCRIPT
from tests.support import ManageProcess, free_port, wait_until
from tests.video_site import accept, check_published, clip, current
from tests.video_workers import ffmpegs_below, has_ended, worker_environment
from tests.wire import Wire
from tests.workers import wait_for_worker
from videos import storage
from videos.models import Transcode, TranscodeStatus, Video, VideoStatus

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

FAR_TYPES = ("videos.encode", "videos.audio")
LEASE = "3s"
_REQUEST = re.compile(r'"(GET|PUT|POST) /api/worker/jobs/(\w+)/(\S+) HTTP/[\d.]+" (\d+)')


class Server:
    """The web server. `requests("source")` counts what it answered, by job and status, from its own log."""

    def __init__(self, start: StartManage, environment: dict[str, str]) -> None:
        self.port = free_port()
        self._process = start(
            "runserver",
            "--noreload",
            f"127.0.0.1:{self.port}",
            env=environment | {"DJANGO_SETTINGS_MODULE": "tests.settings", "DEBUG": "true"},
        )
        wait_until(self._accepts)

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
            program=SCRIPT,
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
            worker=self.worker, status=Status.PROCESSING, type="videos.encode", progress_percent__gt=0
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


@pytest.fixture
def environment(videos_root: Path) -> dict[str, str]:
    return worker_environment() | {"JOBS_CLAIM_DURATION": LEASE, "JOBS_STALE_TIMEOUT": "60s"}


@pytest.fixture
def server(start_manage: StartManage, environment: dict[str, str]) -> Server:
    return Server(start_manage, environment)


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    wire = Wire(server.port)
    yield wire
    wire.close()


def local_worker(start: StartManage, environment: dict[str, str], *arguments: str) -> ManageProcess:
    worker = start("runworker", "--concurrency", "1", *arguments, env=environment)
    wait_for_worker(worker)
    return worker


def staged() -> list[Path]:
    return [path for path in storage.workplace().rglob("*") if path.is_file()]


def test_a_far_worker_encodes_what_a_local_one_publishes(
    environment: dict[str, str], server: Server, start_manage: StartManage, tmp_path: Path
) -> None:
    video = accept(clip(150, (640, 480)))
    far = Far("shed", start_manage, tmp_path / "shed", server.port)
    far.start()
    local_worker(start_manage, environment, "--exclude-types", ",".join(FAR_TYPES))
    wait_until(lambda: has_ended(video), timeout=120)
    assert video.status == VideoStatus.READY, video.error_message
    check_published(video)
    made = Attempt.objects.filter(job__type__in=FAR_TYPES)
    assert set(made.values_list("worker_name", "outcome")) == {("shed", Outcome.COMPLETED)}
    assert sum(server.requests("source").values()) == 1, "the source was fetched once for all its jobs"
    wait_until(lambda: not far.leftovers())
    assert staged() == []


def test_three_videos_by_two_far_workers_and_a_local_one_through_every_misfortune(
    environment: dict[str, str], server: Server, wire: Wire, start_manage: StartManage, tmp_path: Path
) -> None:
    environment |= {"VIDEOS_PRESET": "veryslow"}
    shed = Far("shed", start_manage, tmp_path / "shed", server.port)
    attic = Far("attic", start_manage, tmp_path / "attic", wire.port)
    local = local_worker(start_manage, environment)
    work = Work()
    for _ in range(3):
        work.hand_in()
    shed.start()
    attic.start()

    late = attic.freeze(work)
    wire.cut()  # for longer than the lease
    attic.thaw()
    victim = shed.freeze(work)
    os.kill(shed.process.pid, signal.SIGKILL)
    shed.process.wait()
    wait_until(lambda: _was_taken(late, attic) and _was_run_again(victim), timeout=120)
    wait_until(lambda: not ffmpegs_below(attic.process.pid), timeout=60)
    wire.mend()
    mended_at = timezone.now()

    shed.start()
    shed.freeze(work)
    worker_keys.revoke([shed.record.pk])
    shed.thaw()
    assert shed.process.wait(60) == 1, shed.process.read_output()
    assert not ffmpegs_below(shed.process.pid)
    assert not shed.leftovers()

    def went_on() -> bool:
        assert attic.process.poll() is None, attic.process.read_output()
        work.keep_up()
        completed = Attempt.objects.filter(worker_id=attic.worker.pk, outcome=Outcome.COMPLETED)
        return completed.filter(started_at__gt=mended_at).exists()

    wait_until(went_on, timeout=120)
    wait_until(lambda: all(has_ended(video) for video in work.videos), timeout=300)
    for video in work.videos:
        assert video.status == VideoStatus.READY, video.error_message
        check_published(video)
    _check_books(work.videos)
    assert local.poll() is None
    wait_until(lambda: not attic.leftovers(), timeout=60)
    wait_until(lambda: staged() == [], timeout=60)
    _check_downloads(server, [shed, attic])


def _was_run_again(job: Job) -> bool:
    return bool(Attempt.objects.filter(job=job).count() > 1)


def _was_taken(job: Job, from_whom: Far) -> bool:
    job.refresh_from_db()
    return bool(job.worker_id != from_whom.worker.pk)


def _check_books(videos: list[Video]) -> None:
    """Nothing was published twice, nothing was completed twice."""
    for video in videos:
        assert list(video.transcodes.values_list("status", flat=True)) == [TranscodeStatus.PUBLISHED]
        workflow = current(video).workflow_id
        jobs = Job.objects.filter(workflow_id=workflow)
        completed = Attempt.objects.filter(job__in=jobs, outcome=Outcome.COMPLETED)
        assert max(Counter(completed.values_list("job_id", flat=True)).values()) == 1
    assert Transcode.objects.count() == len(videos)


def _check_downloads(server: Server, fars: list[Far]) -> None:
    """No worker fetched a source a second time. A fetch that was broken off is gone on with (206)."""
    video_of = {job.pk: job.payload["transcode_id"] for job in Job.objects.filter(type__in=FAR_TYPES)}
    whole = [
        (video_of[job], count) for (job, status), count in server.requests("source").items() if status == 200
    ]
    per_video: Counter[int] = Counter()
    for video, count in whole:
        per_video[video] += count
    assert max(per_video.values()) <= len(fars), per_video
