"""The jobs of the pipeline: thin handlers that load, call what does the work, and store.

Each stage is declared here, whole: what it follows, how many jobs it has, how much work they are (see pipeline.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from jobs import JobContext, job_type
from jobs.remote_work import DoneAtSite
from videos import (
    assembling,
    conf,
    encoding,
    far_stages,
    manifests,
    pipeline,
    planning,
    publishing,
    removal,
    reusing,
    subtitling,
    toolchains,
)
from videos.artifacts import (
    audio_exists,
    chunk_exists,
    is_published,
    kept_exists,
    subtitle_exists,
    thumbnail_exists,
)
from videos.bench import Bench
from videos.far_bench import FarBench
from videos.manifests import Manifest
from videos.media import thumbnails
from videos.media.examine import examine
from videos.media.plan import EncodePlan
from videos.models import Step, Transcode
from videos.pipeline import Unit, stage
from videos.remote_stages import (
    PicturedElsewhere,
    ProbedElsewhere,
    SubtitledElsewhere,
    TranscribedElsewhere,
)
from videos.remote_work import EncodedElsewhere
from videos.resumable import uploads
from videos.site_work import AssembledAtSite, PublishedAtSite, TakenOverAtSite
from videos.workbench import clear_errors, open_bench


@stage(
    pipeline.PROBE,
    step=Step.PROBE,
    units=pipeline.none,
    prefers=toolchains.GPU,
    artifact=is_published,
    remote=ProbedElsewhere(),
)
def probe(job: JobContext, transcode_id: int) -> None:
    """Look at the source, pin the plan, add every job that it asks for."""
    if job.site is not None:
        return far_stages.probe(job, job.site)
    bench = open_bench(job, transcode_id)
    with clear_errors(bench):
        info = examine(bench.source, limits=conf.current().limits, stop=lambda: job.must_stop)
    plan = planning.plan_for(bench, info, has=toolchains.here().capabilities)
    planning.begin(job, transcode_id, info, plan)
    return None


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Encodes at once in one worker: each has a thread per quality, so more would only take memory."""


@stage(
    pipeline.ENCODE,
    step=Step.TRANSCODE,
    units=pipeline.per_chunk,
    work=pipeline.pixels,
    per_encoder=True,
    artifact=chunk_exists,
    per_worker=CORES,
    remote=EncodedElsewhere(picture=True),
)
def encode(job: JobContext, transcode_id: int, chunk: int) -> dict[str, Any] | None:
    """One chunk of the picture in every quality."""
    bench = _bench_here_or_far(job, transcode_id)
    encoding.encode_chunk(bench, chunk)
    return bench.result()


@stage(
    "videos.audio",
    step=Step.TRANSCODE,
    units=pipeline.per_track,
    work=pipeline.sound,
    artifact=audio_exists,
    remote=EncodedElsewhere(picture=False),
)
def audio(job: JobContext, transcode_id: int, track: int) -> None:
    """One sound track, whole."""
    encoding.encode_audio(_bench_here_or_far(job, transcode_id), track)


def _if_kept(plan: EncodePlan, transcode: Transcode) -> Iterable[Unit]:
    return [{}] if transcode.kept_plan else []


@stage(
    "videos.take_over",
    step=Step.TRANSCODE,
    units=_if_kept,
    work=pipeline.little,
    artifact=kept_exists,
    remote=TakenOverAtSite(),
)
def take_over(job: JobContext, transcode_id: int) -> None:
    """The qualities that are kept when others are encoded again."""
    if job.site is not None:
        return far_stages.take_over(job, job.site)
    takeover = reusing.takeover_of(open_bench(job, transcode_id).transcode)
    for number, batch in enumerate(takeover.batches, start=1):
        takeover.take(batch)
        job.progress(99 * number / len(takeover.batches), step="taking over")
    return takeover.commit()


def _bench_here_or_far(job: JobContext, transcode_id: int) -> Bench:
    return open_bench(job, transcode_id) if job.site is None else FarBench(job, job.site)


@stage(
    "videos.thumbnail",
    step=Step.THUMBNAIL,
    units=pipeline.once,
    work=pipeline.little,
    after=[pipeline.ENCODE, "videos.take_over"],
    critical=False,
    artifact=thumbnail_exists,
    remote=PicturedElsewhere(),
)
def thumbnail(job: JobContext, transcode_id: int) -> None:
    """The poster and the storyboard, from keyframes that are encoded already."""
    if job.site is not None:
        return far_stages.thumbnail(job, job.site)
    bench = open_bench(job, transcode_id)
    bench.gather()
    watch = bench.watch(total=1, step="thumbnails")
    with clear_errors(bench):
        made = thumbnails.make(assembling.decoded_plan(bench), bench.generation, stop=watch.stop)
        manifest = Manifest(plan=bench.plan.digest(), files=(made.poster, made.storyboard, *made.sheets))
        bench.commit(manifests.THUMBNAIL, manifest)
    return None


def _if_text(plan: EncodePlan, transcode: Transcode) -> Iterable[Unit]:
    return [{}] if transcode.with_subtitles and transcode.text_tracks else []


@stage(
    "videos.subtitles",
    step=Step.TRANSCODE,
    units=_if_text,
    critical=False,
    artifact=subtitle_exists,
    remote=SubtitledElsewhere(),
)
def subtitles(job: JobContext, transcode_id: int) -> dict[str, Any]:
    """The text tracks of the source."""
    if job.site is not None:
        return far_stages.subtitles(job, job.site)
    return {"languages": subtitling.extract(open_bench(job, transcode_id))}


def _if_speech(plan: EncodePlan, transcode: Transcode) -> Iterable[Unit]:
    """Speech is recognised where nobody has written it down."""
    wanted = transcode.with_subtitles and not transcode.text_tracks and plan.audio
    return [{}] if wanted and conf.current().transcriber != "off" else []


@stage(
    subtitling.TRANSCRIBE,
    step=Step.TRANSCODE,
    units=_if_speech,
    critical=False,
    artifact=subtitle_exists,
    per_worker=1,
    priority="low",
    isolate=True,
    remote=TranscribedElsewhere(),
)
def transcribe(job: JobContext, transcode_id: int) -> dict[str, Any]:
    """What is said, written down. In a process of its own: engines hold Python's lock for seconds."""
    if job.site is not None:
        return far_stages.transcribe(job, job.site)
    return subtitling.transcribe(open_bench(job, transcode_id))


@stage(
    "videos.master_playlist",
    step=Step.MASTER_PLAYLIST,
    units=pipeline.once,
    work=pipeline.little,
    after=[pipeline.ENCODE, "videos.take_over", "videos.audio", "videos.thumbnail", "videos.subtitles"],
    artifact=is_published,
    remote=AssembledAtSite(),
)
def master_playlist(job: JobContext, transcode_id: int) -> None:
    """The playlists, written from what is really there."""
    if job.site is not None:
        return far_stages.master_playlist(job, job.site)
    return assembling.assemble(open_bench(job, transcode_id))


@stage(
    "videos.finalize",
    step=Step.FINALIZE,
    units=pipeline.once,
    work=pipeline.little,
    after=["videos.master_playlist"],
    artifact=is_published,
    remote=PublishedAtSite(),
)
def finalize(job: JobContext, transcode_id: int) -> None:
    """Verify everything, and publish."""
    if job.site is not None:
        return far_stages.finalize(job, job.site)
    return publishing.publish(open_bench(job, transcode_id))


# -- small things ------------------------------------------------------------------------------------------------------


@job_type(toolchains.WATCH, remote=DoneAtSite())
def watch_encoder(job: JobContext, transcode_id: int, turn: int) -> None:
    """See to it that no generation waits for a GPU that is gone."""
    toolchains.look_after(transcode_id, turn)


@job_type("videos.remove_files", remote=DoneAtSite())
def remove_files(job: JobContext, video_id: str, number: int | None = None) -> None:
    """Remove a generation that nobody needs any more, or all that is left of a purged video."""
    removal.remove(video_id, number)


@job_type(uploads.REMOVAL, remote=DoneAtSite())
def remove_upload(job: JobContext, upload_id: str, turn: int = 0) -> dict[str, Any]:
    """Remove a resumable upload that nobody has gone on with; planned when it begins."""
    return {"removed": uploads.remove_expired(upload_id, turn)}
