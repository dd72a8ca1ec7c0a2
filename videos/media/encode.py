"""Encode one chunk of the picture in every quality, or one sound track: from the source to CMAF segments.

A chunk decodes its range of the source once. The frames on the plan's grid are picked by number (`fps`, then
`trim`), split, scaled and encoded by one encoder per quality (x264 with a single thread). ffmpeg writes one
fragmented MP4 per quality; what is in it is checked frame by frame and cut into segments by us, with timestamps
that are frame numbers (see boxes.py). So chunks meet to the tick, and x264 gives the same bytes again.

Sound is encoded whole (AAC frames overlap, so joins would be heard) in every bitrate from one decode. The
encoder's first frame, which only primes the decoder, is left out, so sound and picture start together.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from videos.media import ffmpeg
from videos.media.commands import FRAMES, audio_arguments, chunk_arguments
from videos.media.encoders import ENCODERS
from videos.media.exceptions import ChunkRefused, FfmpegStopped
from videos.media.ffmpeg import Progress, RunLimits
from videos.media.plan import Chunk, EncodePlan
from videos.media.scratch import scratch_folder
from videos.media.segments import INIT, cut_picture, cut_sound, first_frame, segment_name

__all__ = ["INIT", "Encoded", "Written", "encode_audio", "encode_chunk", "segment_name", "written"]


@dataclass(frozen=True, kw_only=True)
class Written:
    """One file, below the folder that was asked for."""

    name: str
    size: int
    sha256: str


def written(path: Path, folder: Path) -> Written:
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return Written(name=path.relative_to(folder).as_posix(), size=path.stat().st_size, sha256=checksum)


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What a call has written."""

    frames: int
    """Frames of the picture (or of sound) that came out. Fewer than planned: the source ends here."""
    files: tuple[Written, ...]


def encode_chunk(
    plan: EncodePlan,
    number: int,
    *,
    source: Path,
    into: Path,
    ffmpeg_binary: Path,
    limits: RunLimits = RunLimits(),  # noqa: B008 (frozen)
    hold: bool = False,
    device: str = "",
    on_progress: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Encoded:
    """Encode chunk `number` in all qualities: `into/<quality>/init.mp4` and its `seg_….m4s`.

    Files appear only when the whole chunk is done. `on_progress` is told the number of frames encoded.

    A source that breaks off gives fewer frames than planned (`frames`; 0 and no files if it ended before
    this chunk): publish plan.shortened(…) then. Should later chunks still have pictures, there is a hole,
    and `hold=True` fills it with the last picture before it.
    """
    _same_build(plan, ffmpeg_binary)
    chunk = plan.chunk(number)
    with scratch_folder(into, f"chunk-{number}") as folder:
        for seek, from_zero in _ways_to_read(plan, chunk):
            tail = ffmpeg.run(
                chunk_arguments(
                    plan, chunk, source=source, seek=seek, from_zero=from_zero, hold=hold, device=device
                ),
                ffmpeg=ffmpeg_binary,
                folder=folder,
                reads=[source],
                limits=ENCODERS[plan.encoder].within(limits),
                on_progress=_frames_told(on_progress, chunk.frames),
                stop=stop,
            )
            first = first_frame(folder / FRAMES)
            if first == 0:
                break
        if first is None:
            return Encoded(frames=0, files=())
        if first != 0:
            raise ChunkRefused(f"chunk {number} starts {first} frames late\n{tail}".rstrip())
        counts: set[int] = set()
        for rendition in plan.renditions:
            counts.add(cut_picture(plan, chunk, rendition, folder))
        if len(counts) != 1:
            raise ChunkRefused(f"the qualities of chunk {number} differ in length: {sorted(counts)} frames")
        frames = counts.pop()
        if (
            stop is not None and stop()
        ):  # a worker that has lost the chunk must not change it under its successor
            raise FfmpegStopped("Stopped as asked.")
        return Encoded(frames=frames, files=_keep(folder, into, [r.name for r in plan.renditions]))


def _ways_to_read(plan: EncodePlan, chunk: Chunk) -> list[tuple[float | None, bool]]:
    """Where to start reading, and whether to fill up from zero: the next is tried if the chunk's start is missing."""
    if chunk.number == 1:
        # Filling up is not the first way: should the picture change its size, ffmpeg would fill up again.
        return [(None, True)] if plan.held_frames else [(None, False), (None, True)]
    seek = plan.seeks[chunk.number - 1]
    # The seek may go too far, in containers without an index. Then all is read from the beginning.
    return [(None, False)] if seek is None else [(seek, False), (None, False)]


def encode_audio(
    plan: EncodePlan,
    number: int,
    *,
    source: Path,
    into: Path,
    ffmpeg_binary: Path,
    limits: RunLimits = RunLimits(),  # noqa: B008 (frozen)
    on_progress: Callable[[float], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Encoded:
    """Encode sound track `number` in every bitrate: `into/audio_1_128k/init.mp4` and its segments.

    Every track has the length of the picture: silence is added, what is over is cut off. `on_progress` is
    told the seconds encoded.
    """
    _same_build(plan, ffmpeg_binary)
    track = next(t for t in plan.audio if t.number == number)
    with scratch_folder(into, f"audio-{number}") as folder:
        told = None if on_progress is None else lambda progress: on_progress(progress.out_time)
        ffmpeg.run(
            audio_arguments(plan, track, source=source),
            ffmpeg=ffmpeg_binary,
            folder=folder,
            reads=[source],
            limits=limits,
            on_progress=told,
            stop=stop,
        )
        folders = [track.folder(bitrate) for bitrate in track.bitrates]
        for name in folders:
            cut_sound(plan, name, folder)
        return Encoded(frames=plan.audio_frames, files=_keep(folder, into, folders))


# Folders


def _same_build(plan: EncodePlan, binary: Path) -> None:
    build = ffmpeg.build_id(binary)
    if plan.build != build:
        raise ChunkRefused(
            f"the plan is for ffmpeg {plan.build}; here is {build}, which gives other bytes",
            code="other_build",
        )


def _keep(folder: Path, into: Path, names: list[str]) -> tuple[Written, ...]:
    """Move what was made to its place, initialisation segments first: they must be the same in every chunk."""
    for name in names:
        there = into / name / INIT
        if there.exists() and there.read_bytes() != (folder / name / INIT).read_bytes():
            raise ChunkRefused(
                f"{name}/{INIT} differs from the one that other chunks of this plan have", code="other_init"
            )
    kept = []
    for name in names:
        (into / name).mkdir(exist_ok=True)
        for path in sorted((folder / name).iterdir()):
            kept.append(written(path, folder))
            path.replace(into / name / path.name)
    return tuple(kept)


def _frames_told(told: Callable[[int], None] | None, most: int) -> Callable[[Progress], None] | None:
    if told is None:
        return None
    return lambda progress: told(min(progress.frame, most))
