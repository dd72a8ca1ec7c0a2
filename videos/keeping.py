"""Keeping what a job has made, and asking for it: on the disk, or in the storage of the videos (depot.py).

In a storage as on the disk, files come first and their manifest last: with it they count.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from jobs.models import Job
from videos import depot, manifests, storage
from videos.manifests import Manifest
from videos.media.encode import Written
from videos.media.exceptions import ChunkRefused
from videos.media.finish import MASTER
from videos.models import Transcode, Video

MEDIA = (".m4s", ".mp4")
WAIT = 0.2


def _nobody() -> None:
    pass


# -- what there is -----------------------------------------------------------------------------------------------------


def read(path: Path) -> bytes | None:
    """A small file; None when there is none."""
    kept = depot.current()
    if kept is not None:
        return kept.read(path)
    return path.read_bytes() if path.exists() else None


def read_manifest(generation: Path, name: str) -> Manifest | None:
    kept = depot.current()
    if kept is None:
        return manifests.read(generation, name)
    data = kept.read(generation / manifests.address(name))
    return None if data is None else manifests.parse(data)


def intact(generation: Path, name: str, *, plan: str, parts: Collection[str]) -> Manifest | None:
    """The manifest, if it is of this plan, has all these parts, and every file is there: on the disk byte for byte, in
    a storage by its size, for those write a file whole or not at all; publishing compares the bytes."""
    kept = depot.current()
    if kept is None:
        return manifests.intact(generation, name, plan=plan, parts=parts)
    manifest = read_manifest(generation, name)
    if manifest is None or manifest.plan != plan or not set(parts) <= set(manifest.parts):
        return None
    return manifest if complete(generation, manifest.files) else None


def complete(generation: Path, files: Iterable[Written]) -> bool:
    """Every file is kept and has its size."""
    kept = depot.current()
    if kept is None:
        return manifests.complete(generation, files)
    there = kept.sizes(generation)
    return all(there.get(file.name) == file.size for file in files)


def what_is_missing(transcode: Transcode) -> str:
    """What a published generation lacks, in words; empty when all is there. Counts and sizes, no checksums."""
    there = depot.sizes(storage.generation(transcode))
    if MASTER not in there:
        return f"{MASTER} is missing"
    for rendition in transcode.renditions.all():
        own = f"{rendition.name}/"
        media = [size for name, size in there.items() if name.startswith(own) and name.endswith(MEDIA)]
        if rendition.playlist not in there:
            return f"{rendition.playlist} is missing"
        if len(media) < rendition.segments + 1:
            return f"{rendition.name} has {len(media)} of {rendition.segments + 1} files"
        if sum(media) < rendition.bytes:
            return f"{rendition.name} has lost some of its {rendition.bytes:,} bytes"
    return ""


# -- to keep -----------------------------------------------------------------------------------------------------------


def commit(generation: Path, name: str, manifest: Manifest, *, go_on: Callable[[], None] = _nobody) -> None:
    """From now on these files count. `go_on` is called before each file that is sent, and may raise."""
    manifests.write(generation, name, manifest)
    kept = depot.current()
    if kept is None:
        return
    elsewhere = []
    for file in manifest.files:
        go_on()
        if manifests.matches(generation, file):
            kept.put(generation / file.name)
        else:
            elsewhere.append(file)
    if elsewhere and not complete(generation, elsewhere):
        raise ChunkRefused(f"{elsewhere[0].name} is neither here nor in the storage.")
    go_on()
    kept.put(generation / manifests.address(name))


def keep(paths: Iterable[Path]) -> None:
    """Files that no manifest lists, in this order."""
    kept = depot.current()
    for path in paths if kept else ():
        assert kept is not None
        kept.put(path)


# -- to work with ------------------------------------------------------------------------------------------------------


def gather(
    generation: Path, *, go_on: Callable[[], None] = _nobody, here: Callable[..., bool] = manifests.matches
) -> None:
    """Bring what other machines have made of a generation to the disk. `here` says which media need not be fetched."""
    kept = depot.current()
    if kept is None:
        return
    for manifest in gather_manifests(generation, go_on=go_on):
        for written in manifest.files:
            if not here(generation, written):
                go_on()
                with contextlib.suppress(FileNotFoundError):  # verified, and missed, by whoever asked for it
                    kept.get(generation / written.name)


def gather_manifests(generation: Path, *, go_on: Callable[[], None] = _nobody) -> list[Manifest]:
    """All but the media: it is small, and fetched anew."""
    kept = depot.current()
    if kept is None:
        return []
    names = [name for name in kept.sizes(generation) if not name.endswith(MEDIA)]
    for name in names:
        go_on()
        with contextlib.suppress(FileNotFoundError):
            kept.get(generation / name)
    stems = [Path(name).stem for name in names if Path(name).parent == Path(manifests.FOLDER)]
    return [manifest for stem in stems if (manifest := manifests.read(generation, stem)) is not None]


def fetch(path: Path) -> None:
    """One file to the disk, unless it is there."""
    kept = depot.current()
    if kept is not None and not path.is_file():
        with contextlib.suppress(FileNotFoundError):
            kept.get(path)


def fetch_source(video: Video, *, go_on: Callable[[], None] = _nobody) -> Path:
    """The source as a file on this machine. Not there if it is gone, wherever it is kept."""
    path, kept = storage.source(video), depot.current()
    if kept is None or path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.with_name(".fetching"), go_on):
        if not path.is_file():
            with contextlib.suppress(FileNotFoundError):
                kept.get(path, told=lambda size: go_on())
    return path


@contextlib.contextmanager
def _alone(lock: Path, go_on: Callable[[], None]) -> Iterator[None]:
    """One of this machine's processes at a time: several chunks begin at once, and the source may have gigabytes."""
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                go_on()
                time.sleep(WAIT)
        yield


def tidy() -> None:
    """Remove the copies of videos from this machine that no job is about any more."""
    if depot.current() is None:
        return
    cached = list(storage.videos_on_disk())
    flows = dict(Transcode.objects.filter(video__in=cached).values_list("workflow_id", "video_id"))
    active = Job.objects.active().filter(workflow_id__in=flows).values_list("workflow_id", flat=True)
    needed = {flows[flow] for flow in set(active)}
    for video_id in cached:
        if video_id not in needed:
            with contextlib.suppress(OSError):  # tried again with the next job
                storage.remove(storage.video_folder(video_id))
