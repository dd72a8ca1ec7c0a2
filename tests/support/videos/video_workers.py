"""What the tests of the pipeline on real workers share: their settings, their ffmpegs, and when a video has ended."""

from collections import defaultdict
from pathlib import Path

from django.conf import settings

from tests.support.queue.workers import QUICK
from videos import storage
from videos.models import Transcode, Video, VideoStatus


def worker_environment() -> dict[str, str]:
    """The settings of this test for worker processes."""
    return QUICK | {f"VIDEOS_{key}": str(value) for key, value in settings.VIDEOS.items()}


def has_ended(work: Video | Transcode) -> bool:
    work.refresh_from_db()
    if isinstance(work, Transcode):
        return not work.is_active
    return work.status in (VideoStatus.READY, VideoStatus.FAILED)


def ffmpegs_below(pid: int) -> list[int]:
    """The process ids of every ffmpeg that this process (or a child of it) has started."""
    children: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            children[int(rest.split()[1])].append((int(entry.name), name))
    found, below = [], [pid]
    while below:  # a child may have the lower number: they begin again at 32,768
        for own, name in children[below.pop()]:
            below.append(own)
            if "ffmpeg" in name:
                found.append(own)
    return found


def finished_parts(video: Video, generation: int = 1) -> dict[str, int]:
    """When each manifest was written: what is finished is never written again."""
    folder = storage.generation_folder(video.pk, generation) / "manifests"
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}
