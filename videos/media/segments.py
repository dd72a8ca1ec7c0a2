"""What ffmpeg wrote: checked frame by frame, and cut into segments whose timestamps are frame numbers."""

import mmap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from videos.media import boxes
from videos.media.boxes import Sample
from videos.media.exceptions import ChunkRefused
from videos.media.plan import AAC_FRAME, Chunk, EncodePlan, RenditionPlan

INIT = "init.mp4"


def segment_name(number: int) -> str:
    return f"seg_{number:05d}.m4s"


def first_frame(statistics: Path) -> int | None:
    """The grid position (counted from the chunk's start) of the first frame that reached an encoder."""
    with statistics.open() as lines:
        first = lines.readline().split()
    return int(first[1]) if len(first) == 2 else None


def cut_picture(plan: EncodePlan, chunk: Chunk, rendition: RenditionPlan, folder: Path) -> int:
    """Cut one quality's MP4 into segments; returns the number of frames."""
    target = folder / rendition.name
    frames = 0
    start: int | None = None
    numbers = iter(chunk.segments)
    for fragment in _fragments(folder / f"{rendition.name}.mp4", target):
        start = min(fragment.shown_at()) if start is None else start
        number = next(numbers, None)
        samples = _on_grid(plan, fragment, start + frames * plan.frame_ticks)
        if number is None or len(samples) > plan.segment_length(number):
            raise ChunkRefused(f"chunk {chunk.number} has more frames than planned")
        if not samples[0].keyframe or any(sample.keyframe for sample in samples[1:]):
            raise ChunkRefused(f"segment {number} does not start with its only keyframe")
        decode_time = (chunk.first_frame + frames) * plan.frame_ticks
        (target / segment_name(number)).write_bytes(boxes.media_segment(number, decode_time, samples))
        if len(samples) < plan.segment_length(number):
            numbers = iter(())  # the source ends here: nothing may follow
        frames += len(samples)
    return frames


def _on_grid(plan: EncodePlan, fragment: boxes.Fragment, start: int) -> list[Sample]:
    """The samples with our timestamps: decoded one per frame, shown each at its own place on the grid."""
    ticks = plan.frame_ticks
    places = []
    for shown in fragment.shown_at():
        place, off = divmod(shown - start, ticks)
        if off:
            raise ChunkRefused(f"a frame is {off} ticks off the grid")
        places.append(place)
    if sorted(places) != list(range(len(places))):
        raise ChunkRefused("a frame is missing, doubled, or shown in another segment")
    waits = [place - position + plan.reorder for position, place in enumerate(places)]
    if min(waits) < 0:
        raise ChunkRefused(f"a frame is decoded {-min(waits)} frames later than it is shown")
    return [
        sample._replace(duration=ticks, shown_after=wait * ticks)
        for sample, wait in zip(fragment.samples, waits, strict=True)
    ]


def cut_sound(plan: EncodePlan, name: str, folder: Path) -> None:
    """Cut one track's MP4 into segments that start with the frame nearest to the picture's borders."""
    target = folder / name
    samples = (
        sample for fragment in _fragments(folder / f"{name}.mp4", target) for sample in fragment.samples
    )
    next(samples, None)  # only primes the decoder
    for number in range(1, plan.total_segments + 1):
        wanted = plan.audio_segment(number)
        if not wanted:
            continue
        frames = [Sample(AAC_FRAME, 0, True, sample.data) for sample in islice(samples, len(wanted))]
        if len(frames) < len(wanted):
            raise ChunkRefused(
                f"{name} ends after {wanted.start + len(frames)} of {plan.audio_frames} frames"
            )
        segment = boxes.media_segment(number, plan.audio_zero + wanted.start * AAC_FRAME, frames)
        (target / segment_name(number)).write_bytes(segment)


def _fragments(path: Path, target: Path) -> Iterator[boxes.Fragment]:
    """The fragments of an MP4, one at a time; its initialisation segment is written into a new folder."""
    target.mkdir()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        (target / INIT).write_bytes(boxes.init_segment(data))
        yield from boxes.fragments(data)
    path.unlink()
