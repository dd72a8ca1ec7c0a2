"""The look at a source, its pictures and its subtitles, made elsewhere.

Whatever arrives is taken apart and written anew, or compared with what it must be; the site alone decides what follows
from it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection
from fractions import Fraction
from pathlib import Path
from typing import Any

from jobs import staging
from jobs.remote_jobs import context_of
from jobs.remote_work import FileRefused, RemoteJob, SourceFile
from videos import assembling, conf, depot, keeping, manifests, planning, storage, subtitling
from videos.manifests import Manifest
from videos.media import foreign_source, jpeg, thumbnails, webvtt
from videos.media.encode import Written
from videos.media.plan import EncodePlan
from videos.media.source import SourceInfo
from videos.media.webvtt import BadSubtitles, Cue
from videos.models import SubtitleSource, Video
from videos.remote_work import (
    OfATranscode,
    for_an_order,
    open_transcode,
    open_with_plan,
    refusing,
    source_of,
)
from videos.workbench import Workbench, open_bench

FOUND = "source.json"
SPEECH_FILE = "captions/speech.vtt"


def captions_file(number: int) -> str:
    """Of the text track with this place in the order."""
    return f"captions/{number}.vtt"


def bench_of(job: RemoteJob) -> Workbench:
    """As a local worker with this lease would have it."""
    return open_bench(context_of(job), job.payload["transcode_id"])


class ProbedElsewhere(OfATranscode):
    """One file: what was found. The plan is made here, and the jobs that follow from it are added here."""

    def order(self, job: RemoteJob) -> dict[str, Any]:
        with for_an_order():
            open_transcode(job)
        return {"limits": dataclasses.asdict(conf.current().limits)}

    def file_limit(self, job: RemoteJob, name: str) -> int | None:
        return foreign_source.MOST_BYTES if name == FOUND else None

    def check(self, job: RemoteJob, name: str, path: Path, staged: Path) -> None:
        self._read(job, path)

    def finish(self, job: RemoteJob, result: Any) -> None:
        path = staging.folder_of(self, job.lease) / FOUND
        if not path.is_file():
            raise FileRefused(f"{FOUND} has not arrived.")
        info = self._read(job, path)
        bench = bench_of(job)
        plan = planning.plan_for(bench, info, has=job.worker.capabilities)
        planning.begin(bench.job, bench.transcode.pk, info, plan)

    def _read(self, job: RemoteJob, path: Path) -> SourceInfo:
        video = open_transcode(job).video
        try:
            info = foreign_source.read(path, limits=conf.current().limits, size=video.source_bytes)
        except foreign_source.NotASource as problem:
            raise FileRefused(f"{FOUND}: {problem}.") from None
        _compare(info, video)
        return info


def _compare(info: SourceInfo, video: Video) -> None:
    """With what the site itself has seen when the file was uploaded."""
    seen = info.video
    if video.width and (seen.width, seen.height) != (video.width, video.height):
        raise FileRefused(f"{FOUND}: the picture is {video.width}×{video.height}.")
    if video.video_codec and seen.codec != video.video_codec:
        raise FileRefused(f"{FOUND}: the picture is in {video.video_codec}.")
    if video.fps and abs(float(seen.frame_rate) - video.fps) > 0.01 * video.fps:
        raise FileRefused(f"{FOUND}: the picture has {video.fps:g} frames a second.")
    # Once it is published, the record says how long that is.
    known = video.duration if video.published_at is None else None
    if known and abs(float(seen.duration) - known) > 1 + 0.01 * known:
        raise FileRefused(f"{FOUND}: the picture lasts {known:g} s.")


class PicturedElsewhere(OfATranscode):
    """Poster and storyboard. The worker reads segments that are there already; its pictures have the sizes that follow
    from the plan, and the text that goes with them is written here. A version that was published without them gets them
    later."""

    def order(self, job: RemoteJob) -> dict[str, Any]:
        with for_an_order():
            keeping.gather_manifests(storage.generation(open_transcode(job, adds=True)))
            return {"plan": assembling.decoded_plan(bench_of(job)).to_json()}

    def source(self, job: RemoteJob) -> None:
        return None

    def input(self, job: RemoteJob, name: str) -> SourceFile | None:
        transcode, whole = open_with_plan(job, adds=True)
        if name not in thumbnails.needed(self._plan(job)):
            return None
        generation = storage.generation(transcode)
        for made in (manifests.KEPT, *(manifests.chunk_name(chunk.number) for chunk in whole.chunks())):
            manifest = manifests.read(generation, made)
            for file in manifest.files if manifest else ():
                if file.name == name:
                    keeping.fetch(generation / name)
                    return SourceFile(generation / name, name, file.size, file.sha256)
        return None

    def file_limit(self, job: RemoteJob, name: str) -> int | None:
        size = thumbnails.sizes(self._plan(job)).get(name)
        return None if size is None else 64 * 1024 + 3 * size[0] * size[1]

    def check(self, job: RemoteJob, name: str, path: Path, staged: Path) -> None:
        width, height = thumbnails.sizes(self._plan(job))[name]
        try:
            jpeg.check(path, width=width, height=height)
        except jpeg.NotAJpeg as problem:
            raise FileRefused(f"{name} is not such a picture: {problem}.") from None

    def proceed(self, job: RemoteJob) -> float:
        """To a storage before the lock of the lease is taken: that may take long."""
        if depot.current() is not None:
            self._keep(job)
        return 1.0

    def finish(self, job: RemoteJob, result: Any) -> None:
        if depot.current() is None:
            self._keep(job)

    def _keep(self, job: RemoteJob) -> None:
        transcode, whole = open_with_plan(job, adds=True)
        generation, staged = storage.generation(transcode), staging.folder_of(self, job.lease)
        if keeping.intact(generation, manifests.THUMBNAIL, plan=whole.digest(), parts=()):
            return
        plan = self._plan(job)
        missing = [name for name in thumbnails.sizes(plan) if not (staged / name).is_file()]
        if missing:
            raise FileRefused(f"{', '.join(missing)} has not arrived.")
        made = thumbnails.gather(plan, staged)
        files: tuple[Written, ...] = (made.poster, made.storyboard, *made.sheets)
        for file in files:
            (staged / file.name).replace(generation / file.name)
        keeping.commit(generation, manifests.THUMBNAIL, Manifest(plan=whole.digest(), files=files))

    def _plan(self, job: RemoteJob) -> EncodePlan:
        with refusing():
            return assembling.decoded_plan(bench_of(job))


class SendsText(OfATranscode, ABC):
    """WebVTT files, of which only cues are taken, into records: also when the generation is published by now."""

    def source(self, job: RemoteJob) -> SourceFile:
        return source_of(bench_of(job).transcode.video)

    @abstractmethod
    def files(self, bench: Workbench) -> Collection[str]:
        """The names that it may send."""

    def file_limit(self, job: RemoteJob, name: str) -> int | None:
        with refusing():
            return webvtt.MOST_BYTES if name in self.files(bench_of(job)) else None

    def check(self, job: RemoteJob, name: str, path: Path, staged: Path) -> None:
        with refusing():
            _cues(name, path, bench_of(job).plan)


class SubtitledElsewhere(SendsText):
    """The text tracks of the source."""

    def order(self, job: RemoteJob) -> dict[str, Any]:
        bench = bench_of(job)
        return {"plan": bench.plan.to_json(), "tracks": bench.transcode.text_tracks}

    def files(self, bench: Workbench) -> dict[str, dict[str, Any]]:
        tracks = bench.transcode.text_tracks
        return {captions_file(number): track for number, track in enumerate(tracks, start=1)}

    def finish(self, job: RemoteJob, result: Any) -> None:
        bench, staged = bench_of(job), staging.folder_of(self, job.lease)
        for name, track in self.files(bench).items():
            if (staged / name).is_file():
                cues = _cues(name, staged / name, bench.plan)
                subtitling.store(
                    bench.transcode.video, cues, track["language"], track["label"], SubtitleSource.EMBEDDED
                )


class TranscribedElsewhere(SendsText):
    """What is said; the result says in which language."""

    def order(self, job: RemoteJob) -> dict[str, Any]:
        if subtitling.SPEECH not in job.worker.capabilities:
            subtitling.let_others_listen(job.lease, job.type)
        return {"plan": bench_of(job).plan.to_json()}

    def files(self, bench: Workbench) -> list[str]:
        return [SPEECH_FILE]

    def finish(self, job: RemoteJob, result: Any) -> None:
        path = staging.folder_of(self, job.lease) / SPEECH_FILE
        if not path.is_file():
            return
        language = result.get("language") if isinstance(result, dict) else None
        if not subtitling.is_language(language):
            raise FileRefused("The result does not say in which language.")
        bench = bench_of(job)
        cues = _cues(SPEECH_FILE, path, bench.plan)
        subtitling.store(bench.transcode.video, cues, str(language), "", SubtitleSource.RECOGNISED)


def _cues(name: str, path: Path, plan: EncodePlan) -> list[Cue]:
    """As if somebody had uploaded it, and within the programme."""
    try:
        return webvtt.shifted(webvtt.read_captions(path.read_bytes()), Fraction(0), until=plan.duration)
    except BadSubtitles as problem:
        raise FileRefused(f"{name}: {problem}") from None
