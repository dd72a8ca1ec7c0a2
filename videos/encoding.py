"""Encode what one job is about, commit it by its manifest, and never encode it again."""

from __future__ import annotations

import logging
from dataclasses import replace

from videos import manifests, toolchains
from videos.bench import Bench, clear_errors
from videos.manifests import Manifest
from videos.media import encode
from videos.media.encoders import SOFTWARE
from videos.media.exceptions import ChunkRefused, FfmpegFailed, FfmpegStopped, FfmpegTimedOut, MediaError
from videos.media.plan import EncodePlan

log = logging.getLogger("videos")


class QualityFailed(MediaError):
    """One quality of a chunk cannot be encoded although others can."""


def encode_chunk(bench: Bench, number: int) -> None:
    """Encode what is missing of a chunk: all qualities from one decode; one by one if that fails, to find which."""
    plan, name = bench.plan, manifests.chunk_name(number)
    manifest = bench.found(name) or Manifest(plan=plan.digest())
    missing = [quality for quality in bench.qualities() if quality not in manifest.parts]
    if not missing:
        return
    with clear_errors(bench):
        try:
            manifest = manifest.with_part(_encode(bench, plan, number, missing))
        except (FfmpegStopped, FfmpegTimedOut):
            raise
        except (FfmpegFailed, ChunkRefused) as error:
            bench.refuse_changed_source()
            if _was_killed(error) and bench.job.attempt < bench.job.max_attempts:
                raise  # by the system or by a person: no quality is to blame
            _encode_one_by_one(bench, plan, number, manifest, missing, error)
        else:
            bench.commit(name, manifest)


def encode_audio(bench: Bench, number: int) -> None:
    plan, name = bench.plan, manifests.audio_name(number)
    track = next(track for track in plan.audio if track.number == number)
    parts = tuple(track.folder(bitrate) for bitrate in track.bitrates)
    there = bench.found(name)
    if there is None or not set(parts) <= set(there.parts):
        write_audio(bench, plan, number)


def write_audio(bench: Bench, plan: EncodePlan, number: int) -> None:
    """Encode a sound track by this plan, which is shorter than the transcode's own where the source ends early."""
    toolchains.ensure(bench, plan, picture=False)
    watch = bench.watch(total=float(plan.duration), step=f"sound track {number}")
    track = next(track for track in plan.audio if track.number == number)
    with clear_errors(bench):
        made = encode.encode_audio(
            plan,
            number,
            source=bench.source,
            into=bench.generation,
            ffmpeg_binary=bench.ffmpeg,
            on_progress=watch.report,
            stop=watch.stop,
        )
        bench.refuse_changed_source()
        bench.commit(
            manifests.audio_name(number),
            Manifest(
                plan=plan.digest(),
                frames=made.frames,
                parts=tuple(track.folder(bitrate) for bitrate in track.bitrates),
                files=made.files,
            ),
        )


def fill_hole(bench: Bench, plan: EncodePlan, number: int, qualities: list[str]) -> None:
    """Encode a chunk anew, holding the last picture where the source has none although it goes on afterwards."""
    with clear_errors(bench):
        bench.commit(
            manifests.chunk_name(number),
            Manifest(plan=plan.digest()).with_part(_encode(bench, plan, number, qualities, hold=True)),
        )


def _encode(
    bench: Bench, plan: EncodePlan, number: int, qualities: list[str], *, hold: bool = False
) -> Manifest:
    toolchain = toolchains.ensure(bench, plan, picture=True)
    frames = plan.chunk(number).frames
    watch = bench.watch(total=frames, step=f"chunk {number} of {plan.total_chunks}")
    only = replace(plan, renditions=tuple(r for r in plan.renditions if r.name in qualities))
    made = encode.encode_chunk(
        only,
        number,
        source=bench.source,
        into=bench.generation,
        ffmpeg_binary=bench.ffmpeg,
        hold=hold,
        device=toolchain.device(plan.encoder),
        on_progress=watch.report,
        stop=watch.stop,
    )
    bench.refuse_changed_source()
    return Manifest(plan=plan.digest(), frames=made.frames, parts=tuple(qualities), files=made.files)


def _was_killed(error: MediaError) -> bool:
    return isinstance(error, FfmpegFailed) and (error.returncode or 0) < 0


def _encode_one_by_one(
    bench: Bench,
    plan: EncodePlan,
    number: int,
    manifest: Manifest,
    qualities: list[str],
    error: MediaError,
) -> None:
    """Keep what can be encoded. What cannot is given up, or fails the job if it is critical."""
    failures: dict[str, MediaError] = {}
    for quality in qualities:
        if qualities == [quality]:
            failures[quality] = error
            break
        try:
            manifest = manifest.with_part(_encode(bench, plan, number, [quality]))
        except FfmpegStopped:
            raise
        except (FfmpegFailed, ChunkRefused) as own_error:
            failures[quality] = own_error
        else:
            bench.commit(manifests.chunk_name(number), manifest)
    if failures and plan.encoder != SOFTWARE:
        bench.give_up_gpu(plan, error)
        raise error  # one quality's failure on a GPU says nothing about the quality
    if not manifest.parts:
        raise error  # nothing of it can be encoded, so it is not about one quality
    critical = [quality for quality in failures if bench.is_critical(quality)]
    if bench.job.attempt >= bench.job.max_attempts or not critical:
        for quality, failure in failures.items():
            log.warning("%s of chunk %d cannot be encoded: %s", quality, number, failure)
            bench.note_failed_quality(quality, str(failure))
    if critical:
        raise QualityFailed(f"{', '.join(critical)} cannot be encoded: {failures[critical[0]]}")
    bench.commit(manifests.chunk_name(number), manifest)
