"""What the site does itself in the name of a remote worker's lease: playlists, publishing.

A worker that claims such a job asks the site to proceed until it says that it is done; then it completes the job, and
in that transaction the records change. It sends nothing, so there is nothing that it could have forged. No request
takes more than a few seconds: what has been read and checked is noted in the folder of the lease.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs import remote_jobs, staging
from jobs.exceptions import LeaseLost
from jobs.remote_work import FileRefused, RemoteJob, RemoteWork
from videos import assembling, depot, keeping, publishing, reusing, storage
from videos.artifacts import is_published
from videos.media import finish, playlists, serial, verify
from videos.media.encode import Written
from videos.media.exceptions import NotConformant
from videos.remote_files import Expected
from videos.remote_stages import bench_of
from videos.remote_work import (
    OfATranscode,
    SendsMedia,
    demand_toolchain,
    for_an_order,
    open_with_plan,
    refusing,
    to_be_made,
)

SECONDS = 2.0
"""How long one request may go on beginning further steps."""

Step = Callable[[], object]


class _NotYet(Exception):
    pass


def _is_here(generation: Path, file: Written) -> bool:
    """By its size: the bytes are compared before it is published."""
    path = generation / file.name
    return path.is_file() and path.stat().st_size == file.size


class Notes:
    """What was done of a job's steps, and what was read: in the folder of its lease, where only the site writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, steps: Sequence[Step]) -> float:
        """Some seconds of them, after those that were done before; returns the share that is done."""
        done, until = self._done(), time.monotonic() + SECONDS
        while done < len(steps):
            steps[done]()
            done += 1
            self._write("steps", done)
            if time.monotonic() >= until:
                break
        return done / len(steps) if steps else 1.0

    def gathered(self, generation: Path) -> bool:
        """Whether all that was made is on this disk, after some more seconds of fetching it."""
        if depot.current() is None or (self._folder / "gathered.json").exists():
            return True
        until = time.monotonic() + SECONDS

        def go_on() -> None:
            if time.monotonic() >= until:
                raise _NotYet

        try:
            keeping.gather(generation, go_on=go_on, here=_is_here)
        except _NotYet:
            return False
        self._write("gathered", True)
        return True

    def read(self, folder: Path, segments: int) -> playlists.Rendition:
        """As finish.read_folder, once."""
        try:
            noted = json.loads((self._folder / f"{folder.name}.json").read_bytes())
            return serial.from_json(playlists.Rendition, noted)
        except FileNotFoundError:
            found = finish.read_folder(folder, segments)
            self._write(folder.name, serial.to_json(found))
            return found

    def _done(self) -> int:
        try:
            return int(json.loads((self._folder / "steps.json").read_bytes()))
        except FileNotFoundError:
            return 0

    def _write(self, name: str, content: Any) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "w") as file:
            json.dump(content, file)
        Path(temporary).replace(self._folder / f"{name}.json")


def _notes(work: RemoteWork, job: RemoteJob) -> Notes:
    return Notes(staging.folder_of(work, job.lease) / ".notes")


def _run(work: RemoteWork, job: RemoteJob, steps: Sequence[Step]) -> float:
    try:
        return _notes(work, job).run(steps)
    finally:
        try:
            remote_jobs.find(job.worker, job.lease)
        except LeaseLost:  # its clean-up may have been over before the notes were written
            staging.remove(staging.folder_of(work, job.lease))


class TakenOverAtSite(OfATranscode):
    """Qualities that are kept, from the generation that is published."""

    def source(self, job: RemoteJob) -> None:
        return None

    def proceed(self, job: RemoteJob) -> float:
        with for_an_order():
            takeover = reusing.takeover_of(open_with_plan(job)[0])

        def taking(batch: tuple[Written, ...]) -> Step:
            return lambda: takeover.take(batch)

        return _run(self, job, [*(taking(batch) for batch in takeover.batches), takeover.commit])


class AssembledAtSite(SendsMedia):
    """Playlists. What does not fit together yet, a hole or sound that goes on for too long, the worker encodes anew."""

    replaces = True

    def order(self, job: RemoteJob) -> dict[str, Any]:
        transcode, plan = to_be_made(job)
        with for_an_order():
            keeping.gather_manifests(storage.generation(transcode))
            gaps = self._gaps(job)
        if not gaps.are_none:
            demand_toolchain(transcode, plan, job, picture=bool(gaps.holes))
        return {
            "plan": plan.to_json(),
            "frames": gaps.assembly.plan.total_frames,
            "qualities": list(gaps.encoded),
            "holes": list(gaps.holes),
            "sounds": list(gaps.sounds),
        }

    def expected(self, job: RemoteJob) -> list[Expected]:
        with refusing():
            gaps = self._gaps(job)
        plan = open_with_plan(job)[1]
        return [
            *(Expected.of_chunk(plan, number) for number in gaps.holes),
            *(Expected.of_track(gaps.assembly.own, number) for number in gaps.sounds),
        ]

    def proceed(self, job: RemoteJob) -> float:
        bench, notes = bench_of(job), _notes(self, job)
        if not notes.gathered(bench.generation):
            return 0.0
        assembly = self._assembly(job)
        folders = finish.folders_of(assembly.plan, assembly.qualities)

        def reading(name: str, segments: int) -> Step:
            return lambda: notes.read(bench.generation / name, segments)

        def writing() -> None:
            """To a storage before the lock of the lease is taken: that may take long."""
            if depot.current() is not None:
                assembling.write(bench, assembly, read=notes.read)

        return _run(self, job, [*(reading(name, segments) for name, segments in folders.items()), writing])

    def finish(self, job: RemoteJob, result: Any) -> None:
        open_with_plan(job)
        bench, gaps = bench_of(job), self._gaps(job)
        assembling.note_length(bench, gaps)
        if depot.current() is None:
            assembling.write(bench, self._assembly(job), read=_notes(self, job).read)

    def _gaps(self, job: RemoteJob) -> assembling.Gaps:
        return assembling.find_gaps(bench_of(job))

    def _assembly(self, job: RemoteJob) -> assembling.Assembly:
        gaps = self._gaps(job)
        missing = [*(f"chunk {n}" for n in gaps.holes), *(f"sound track {n}" for n in gaps.sounds)]
        if missing:
            raise FileRefused(f"{', '.join(missing)} has not arrived.")
        return gaps.assembly


class PublishedAtSite(OfATranscode):
    """Everything is verified here, as a local worker would; then the video's pointer moves as the job is completed."""

    def source(self, job: RemoteJob) -> None:
        return None

    def proceed(self, job: RemoteJob) -> float:
        if is_published(job.payload):
            return 1.0
        bench, notes = bench_of(job), _notes(self, job)
        if not notes.gathered(bench.generation):
            return 0.0
        ready = publishing.prepare(bench)
        checks = verify.checks(ready.plan, bench.generation, files=ready.files, qualities=ready.qualities)
        folders = finish.folders_of(ready.plan, ready.qualities)

        def checking(check: verify.Check) -> Step:
            def run() -> None:
                if problems := list(check()):
                    if depot.current() is not None:
                        storage.remove(bench.generation)  # the copies; the next attempt fetches them anew
                    raise NotConformant(problems)

            return run

        def reading(name: str, segments: int) -> Step:
            return lambda: notes.read(bench.generation / name, segments)

        return _run(
            self,
            job,
            [
                *(checking(check) for check in checks),
                *(reading(name, segments) for name, segments in folders.items()),
                lambda: publishing.tidy(bench),
                lambda: publishing.refuse_unkept(bench, ready),
            ],
        )

    def finish(self, job: RemoteJob, result: Any) -> None:
        if is_published(job.payload):
            return
        bench = bench_of(job)
        ready = publishing.prepare(bench)
        renditions = publishing.describe(bench, ready, read=_notes(self, job).read)
        publishing.swap(bench.transcode, ready, renditions)
