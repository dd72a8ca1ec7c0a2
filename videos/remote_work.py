"""Jobs of the pipeline that run elsewhere; first of all chunks and sound tracks: what a worker gets, which files it
sends, what makes them real. (remote_stages.py: the other stages; site_work.py: what the site does itself.)

A worker sends its segments, then the manifest that lists them. That one moves them into the generation: until then, and
unless the lease lives, nothing there has changed.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs import PermanentFailure
from jobs.lifecycle import FailureReport
from jobs.payloads import storable
from jobs.remote_work import FileRefused, RemoteJob, RemoteWork, SourceFile
from videos import conf, depot, keeping, manifests, reusing, storage, toolchains
from videos.depot import Depot
from videos.exceptions import SourceChanged, SourceGone
from videos.manifests import Manifest
from videos.media import serial
from videos.media.encode import INIT, Written
from videos.media.exceptions import ChunkRefused, FfmpegFailed, MediaError
from videos.media.plan import EncodePlan
from videos.models import QualityStatus, Transcode, TranscodeStatus, Video
from videos.progress import plan_of
from videos.remote_files import Expected

LONGEST_ERROR = 10_000


class OfATranscode(RemoteWork):
    """A job about one transcode, which reads the source of its video."""

    def source(self, job: RemoteJob) -> SourceFile | None:
        return source_of(open_transcode(job).video)

    def staging(self) -> Path:
        return storage.workplace() / "remote"


class SendsMedia(OfATranscode, ABC):
    """Segments that go with manifests."""

    @abstractmethod
    def expected(self, job: RemoteJob) -> list[Expected]:
        """What this job may make, each with its manifest."""

    replaces = False
    """What is there already of the same plan is not added to, but given up."""

    def file_limit(self, job: RemoteJob, name: str) -> int | None:
        return next((limit for own in self.expected(job) if (limit := own.limit(name)) is not None), None)

    def check(self, job: RemoteJob, name: str, path: Path, staged: Path) -> None:
        generation = storage.generation(open_transcode(job))
        expected = self._expected_of(job, name)
        if name != expected.address:
            expected.check_content(name, path)
            _refuse_other_init(name, path, generation)
            return
        manifest = expected.read_manifest(path)
        for file in manifest.files:
            if not (manifests.matches(staged, file) or _is_kept(generation, file)):
                raise FileRefused(
                    f"{name} lists {file.name}, which has not arrived with this size and checksum."
                )
            if (staged / file.name).exists():
                _refuse_other_init(file.name, staged / file.name, generation)
        if (kept := depot.current()) is not None:
            _send(kept, expected, manifest, staged, generation, replaces=self.replaces)

    def stored(self, job: RemoteJob, name: str, staged: Path) -> None:
        transcode = open_transcode(job)
        expected = self._expected_of(job, name)
        if name == expected.address and depot.current() is None:
            manifest = expected.read_manifest(staged / name)
            _commit(expected, manifest, staged, storage.generation(transcode), replaces=self.replaces)

    def _expected_of(self, job: RemoteJob, name: str) -> Expected:
        found = next((own for own in self.expected(job) if own.limit(name) is not None), None)
        if found is None:  # what the job may make has changed since
            raise FileRefused(f"{name} is not a file that this job may write any more.")
        return found


class EncodedElsewhere(SendsMedia):
    """Of a stage whose jobs are chunks of the picture, or sound tracks."""

    def __init__(self, *, picture: bool) -> None:
        self._picture = picture

    def order(self, job: RemoteJob) -> dict[str, Any]:
        transcode, plan = to_be_made(job)
        demand_toolchain(transcode, plan, job, picture=self._picture)
        expected = self._expected(plan, job)
        digest = plan.digest()
        there = keeping.intact(storage.generation(transcode), expected.manifest, plan=digest, parts=())
        there = there or reusing.take_over(transcode, expected.manifest, plan=digest)
        return {
            "plan": plan.to_json(),
            "number": self._number(job),
            "qualities": _wanted(transcode, plan),
            "critical": [r.name for r in plan.renditions if conf.current().is_critical(r.name)],
            "manifest": serial.to_json(there) if there else None,
        }

    def expected(self, job: RemoteJob) -> list[Expected]:
        return [self._expected(open_with_plan(job)[1], job)]

    def finish(self, job: RemoteJob, result: Any) -> None:
        transcode, plan = open_with_plan(job)
        if self._picture:
            _note_failed(transcode, plan, result)
        expected, generation = self._expected(plan, job), storage.generation(transcode)
        manifest = keeping.read_manifest(generation, expected.manifest)
        if manifest is None or manifest.plan not in _digests(transcode, plan):
            raise FileRefused(f"{expected.address} has not arrived.")
        missing = set(_wanted(transcode, plan) if self._picture else expected.folders) - set(manifest.parts)
        if missing:
            raise FileRefused(f"{', '.join(sorted(missing))} has not arrived.")
        if not keeping.complete(generation, manifest.files):
            raise FileRefused(f"Files that {expected.address} lists are missing.")

    def failed(self, job: RemoteJob, failure: FailureReport) -> None:
        """The last attempt at a chunk on a GPU: the generation is started over without one, as locally."""
        about_media = failure.type in (FfmpegFailed.__qualname__, ChunkRefused.__qualname__)
        if not self._picture or not about_media or job.attempt < job.max_attempts:
            return
        with contextlib.suppress(FileRefused):  # then there is nothing to start over
            transcode, plan = open_with_plan(job)
            toolchains.give_up_gpu(transcode, job.lease, plan, MediaError(failure.message))

    def _expected(self, plan: EncodePlan, job: RemoteJob) -> Expected:
        number = self._number(job)
        return Expected.of_chunk(plan, number) if self._picture else Expected.of_track(plan, number)

    def _number(self, job: RemoteJob) -> int:
        return int(job.payload["chunk" if self._picture else "track"])


@contextlib.contextmanager
def for_an_order() -> Iterator[None]:
    """What cannot be made any more fails for good; what is not as it must be now is for the worker to report."""
    try:
        yield
    except FileRefused as refusal:
        raise PermanentFailure(str(refusal)) from None
    except MediaError as problem:
        raise FileRefused(str(problem)) from None


def to_be_made(job: RemoteJob) -> tuple[Transcode, EncodePlan]:
    with for_an_order():
        return open_with_plan(job)


def demand_toolchain(transcode: Transcode, plan: EncodePlan, job: RemoteJob, *, picture: bool) -> None:
    """The job goes elsewhere if its worker lacks what the plan is bound to."""
    pin = toolchains.pin_of(plan, picture=picture)
    if not toolchains.has_pin(job.worker.capabilities, pin):
        toolchains.go_elsewhere(transcode, job.lease, job.type, pin=pin, has=job.worker.capabilities)


def source_of(video: Video) -> SourceFile:
    keeping.tidy()
    path = keeping.fetch_source(video)
    if not path.is_file():
        raise SourceGone(path)
    size = path.stat().st_size
    if size != video.source_bytes:
        raise SourceChanged(path, size=size, uploaded=video.source_bytes)
    return SourceFile(path, path.name, size, video.source_sha256)


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """What would end an attempt only refuses a file: the worker says how the attempt ends."""
    try:
        yield
    except (MediaError, PermanentFailure) as problem:
        raise FileRefused(str(problem)) from None


def open_transcode(job: RemoteJob, *, adds: bool = False) -> Transcode:
    """As long as files of it may be made: also those of one that has failed, which serve the next; of one that is
    published only what `adds` files that it was published without. Raises FileRefused."""
    found = Transcode.objects.select_related("video").filter(pk=job.payload["transcode_id"]).first()
    if found is None or found.files_removed_at is not None:
        raise FileRefused("The files of this generation were removed; there is nothing left to do.")
    final = (TranscodeStatus.RETIRED,) if adds else (TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED)
    if found.status in final:
        raise FileRefused("This generation is published; its files do not change any more.")
    opened: Transcode = found
    return opened


def open_with_plan(job: RemoteJob, *, adds: bool = False) -> tuple[Transcode, EncodePlan]:
    transcode = open_transcode(job, adds=adds)
    plan = plan_of(transcode)
    if plan is None:
        raise FileRefused("The transcode has no plan that can be used here. Retranscode the video.")
    return transcode, plan


def _wanted(transcode: Transcode, plan: EncodePlan) -> list[str]:
    """The qualities to publish, largest first: without those that have been given up."""
    failed = transcode.qualities.filter(status=QualityStatus.FAILED).values_list("quality", flat=True)
    given_up = {name for name in failed if not conf.current().is_critical(name)}
    return [r.name for r in plan.renditions if r.name not in given_up]


def _digests(transcode: Transcode, plan: EncodePlan) -> set[str]:
    """Sound may have been made anew for a source that turned out to be shorter."""
    found = transcode.frames_found
    return {plan.digest(), *([plan.shortened(found).digest()] if found else [])}


def _note_failed(transcode: Transcode, plan: EncodePlan, result: Any) -> None:
    """Qualities that the worker could not encode, and without which the transcode goes on."""
    failed = result.get("failed_qualities", {}) if isinstance(result, dict) else {}
    if not isinstance(failed, dict):
        raise FileRefused("failed_qualities is not an object.")
    for quality, error in failed.items():
        if quality not in {r.name for r in plan.renditions} or conf.current().is_critical(quality):
            raise FileRefused(f"failed_qualities: the video cannot do without {str(quality)[:50]!r}.")
        reason = storable(error)[:LONGEST_ERROR] or "It could not be encoded."
        transcode.qualities.filter(quality=quality).update(
            status=QualityStatus.FAILED, error_message=reason, completed_at=None
        )


# -- into the generation -----------------------------------------------------------------------------------------------


def _refuse_other_init(name: str, path: Path, generation: Path) -> None:
    """All chunks of a quality share one initialisation segment; two that differ cannot be played together."""
    there = generation / name
    if name.endswith(f"/{INIT}") and there.exists() and there.read_bytes() != path.read_bytes():
        raise FileRefused(f"{name} differs from the one that other chunks of this plan have.")


def _is_kept(generation: Path, file: Written) -> bool:
    """In a storage by its size: publishing compares the bytes."""
    if depot.current() is None:
        return manifests.matches(generation, file)
    return depot.size_of(generation / file.name) == file.size


def _with_what_is_there(expected: Expected, manifest: Manifest, generation: Path) -> Manifest:
    before = keeping.read_manifest(generation, expected.manifest)
    if before is None or before.plan != manifest.plan or not keeping.complete(generation, before.files):
        return manifest
    if set(before.parts) - set(manifest.parts) and before.frames != manifest.frames:
        raise FileRefused(f"{expected.address}: other parts of this job have {before.frames:,} frames.")
    return before.with_part(manifest)


def _send(
    kept: Depot, expected: Expected, manifest: Manifest, staged: Path, generation: Path, *, replaces: bool
) -> None:
    """The files to the storage, then the manifest: too slow for the lock of the lease, so just before it is taken. A
    worker that loses the job at this moment has sent what the next one will: the plan decides about every byte."""
    if not replaces:
        manifest = _with_what_is_there(expected, manifest, generation)
    for file in manifest.files:
        if (staged / file.name).exists():
            kept.put(staged / file.name, generation / file.name)
    manifests.write(generation, expected.manifest, manifest)
    kept.put(generation / expected.address)


def _commit(
    expected: Expected, manifest: Manifest, staged: Path, generation: Path, *, replaces: bool
) -> None:
    """Move the files, then write the manifest: whatever happens in between, what counts is whole."""
    if not replaces:
        manifest = _with_what_is_there(expected, manifest, generation)
    for file in manifest.files:
        if (staged / file.name).exists():
            _move(file, staged, generation)
    if not manifests.complete(generation, manifest.files):
        raise FileRefused(f"{expected.address} lists files that have not arrived.")
    manifests.write(generation, expected.manifest, manifest)


def _move(file: Written, staged: Path, generation: Path) -> None:
    source, target = staged / file.name, generation / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.name != INIT:
        source.replace(target)
        return
    try:
        os.link(source, target)  # never in place of one that another chunk has just brought
    except FileExistsError:
        _refuse_other_init(file.name, source, generation)
    source.unlink()
