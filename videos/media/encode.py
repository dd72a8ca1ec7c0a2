"""Encode one chunk of the picture in every quality, or one sound track: from the source to CMAF segments.

A chunk decodes its range of the source once. The frames on the plan's grid are picked by number (`fps`, then
`trim`), split, scaled and encoded by one single-threaded x264 per quality. ffmpeg writes one fragmented MP4
per quality; what is in it is checked frame by frame and cut into segments by us, with timestamps that are
frame numbers (see boxes.py). So chunks meet to the tick, and the same chunk gives the same bytes again.

Sound is encoded whole (AAC frames overlap, so joins would be heard) in every bitrate from one decode. The
encoder's first frame, which only primes the decoder, is left out, so sound and picture start together.
"""

import hashlib
import mmap
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from videos.media import boxes, ffmpeg
from videos.media.boxes import Sample
from videos.media.exceptions import ChunkRefused
from videos.media.ffmpeg import Progress, RunLimits
from videos.media.plan import AAC_FRAME, SAMPLE_RATE, AudioPlan, Chunk, EncodePlan, RenditionPlan

INIT = "init.mp4"
ROUNDING = 2
"""Frames by which a source may end before its plan through rounding alone: its last picture is held."""


def segment_name(number: int) -> str:
    return f"seg_{number:05d}.m4s"


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
    with _workshop(into, f"chunk-{number}") as folder:
        for seek in (plan.seeks[number - 1], None):
            tail = ffmpeg.run(
                chunk_arguments(plan, chunk, source=source, seek=seek, hold=hold),
                ffmpeg=ffmpeg_binary,
                folder=folder,
                reads=[source],
                limits=limits,
                on_progress=_frames_told(on_progress, chunk.frames),
                stop=stop,
            )
            first = _first_frame(folder / "frames.txt")
            if first == 0 or seek is None:
                break
            # The seek went too far, as it may in containers without an index: read from the beginning.
        if first is None:
            return Encoded(frames=0, files=())
        if first != 0:
            raise ChunkRefused(f"chunk {number} starts {first} frames late\n{tail}".rstrip())
        counts: set[int] = set()
        for rendition in plan.renditions:
            counts.add(_cut_picture(plan, chunk, rendition, folder))
        if len(counts) != 1:
            raise ChunkRefused(f"the qualities of chunk {number} differ in length: {sorted(counts)} frames")
        frames = counts.pop()
        return Encoded(frames=frames, files=_keep(folder, into, [r.name for r in plan.renditions]))


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
    with _workshop(into, f"audio-{number}") as folder:
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
            _cut_sound(plan, name, folder)
        return Encoded(frames=plan.audio_frames, files=_keep(folder, into, folders))


# What ffmpeg is told


def chunk_arguments(
    plan: EncodePlan, chunk: Chunk, *, source: Path, seek: float | None, hold: bool = False
) -> list[str]:
    before = ["-copyts"]
    if seek is not None:
        before += ["-noaccurate_seek", "-seek_timestamp", "1", "-ss", f"{seek:.6f}"]
    arguments = ffmpeg.source_input(source, plan.container, *before)
    arguments += ["-filter_complex", _picture_graph(plan, chunk, hold=hold)]
    for number, rendition in enumerate(plan.renditions):
        arguments += ["-map", f"[out{number}]", *_encoder_arguments(plan, rendition)]
        if number == 0:
            arguments += ["-stats_enc_pre", "frames.txt", "-stats_enc_pre_fmt", "{n} {pts}"]
        arguments += [f"{rendition.name}.mp4"]
    return arguments


def _picture_graph(plan: EncodePlan, chunk: Chunk, *, hold: bool) -> str:
    rate = f"{plan.frame_rate.numerator}/{plan.frame_rate.denominator}"
    steps = [f"[0:{plan.video_index}]setpts=PTS-({plan.origin_ticks})"]
    if plan.deinterlace:
        steps.append("bwdif=mode=send_frame:deint=interlaced")
    # The first chunk starts at zero even where the first picture comes a little later.
    steps.append(f"fps=fps={rate}:round=near" + (":start_time=0" if chunk.number == 1 else ""))
    if hold:
        steps.append("tpad=stop=-1:stop_mode=clone")
    elif chunk.number == plan.total_chunks:
        steps.append(f"tpad=stop={ROUNDING}:stop_mode=clone")
    steps.append(f"trim=start_pts={chunk.first_frame}:end_pts={chunk.end_frame}")
    steps.append(f"setpts=PTS-{chunk.first_frame}")
    if plan.hdr_transfer:
        steps += _tone_map(plan)
    count = len(plan.renditions)
    graph = ",".join(steps) + f",split={count}" + "".join(f"[in{n}]" for n in range(count))
    for number, rendition in enumerate(plan.renditions):
        graph += f";[in{number}]{_scale(plan, rendition)}[out{number}]"
    return graph


def _scale(plan: EncodePlan, rendition: RenditionPlan) -> str:
    matrix = ":out_color_matrix=bt709" if plan.to_bt709 else ""
    return (
        f"scale={rendition.width}:{rendition.height}:flags=bicubic+accurate_rnd+bitexact:out_range=tv{matrix},"
        "format=yuv420p,setsar=1"
    )


def _tone_map(plan: EncodePlan) -> list[str]:
    """From HDR to what every screen shows. Scaled first: the light is computed in floating point."""
    largest = plan.renditions[0]
    return [
        f"scale={largest.width}:{largest.height}:flags=bicubic+accurate_rnd+bitexact",
        f"zscale=tin={plan.hdr_transfer}:pin=bt2020:min=bt2020nc:t=linear:npl=100",
        "format=gbrpf32le",
        "zscale=p=bt709",
        "tonemap=tonemap=hable:desat=0",
        "zscale=t=bt709:m=bt709:r=tv",
        "format=yuv420p",
    ]


def _encoder_arguments(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    rate = f"{plan.frame_rate.numerator}/{plan.frame_rate.denominator}"
    gop = str(plan.segment_frames)
    return [
        *("-r", rate, "-fps_mode", "cfr", "-c:v", plan.encoder, "-preset", plan.preset, "-threads", "1"),
        *("-profile:v", rendition.profile, "-level:v", rendition.level, "-pix_fmt", "yuv420p"),
        *(
            "-b:v",
            str(rendition.bitrate),
            "-maxrate",
            str(rendition.maxrate),
            "-bufsize",
            str(rendition.bufsize),
        ),
        *("-g", gop, "-keyint_min", gop, "-sc_threshold", "0", "-bf", "3"),
        *("-x264-params", "open-gop=0:b-pyramid=normal"),
        *("-flags:v", "+bitexact+cgop", "-fflags", "+bitexact", "-map_metadata", "-1", "-map_chapters", "-1"),
        *("-video_track_timescale", str(plan.timescale), "-f", "mp4"),
        *("-movflags", "+empty_moov+frag_keyframe+default_base_moof+skip_trailer"),
    ]


def audio_arguments(plan: EncodePlan, track: AudioPlan, *, source: Path) -> list[str]:
    samples = plan.audio_frames * AAC_FRAME
    layout = "mono" if track.channels == 1 else "stereo"
    count = len(track.bitrates)
    outputs = "".join(f"[out{n}]" for n in range(count))
    graph = (
        # Seconds on the source's clock become seconds after the plan's zero; gaps are filled with silence.
        f"[0:{track.index}]asetpts=PTS-({_exact(plan)})/TB,"
        f"aresample={SAMPLE_RATE}:async=1:first_pts=0,"
        f"aformat=sample_fmts=fltp:channel_layouts={layout},"
        f"apad,atrim=end_sample={samples},asetnsamples=n={AAC_FRAME}:p=1,asplit={count}{outputs}"
    )
    arguments = ffmpeg.source_input(source, plan.container, "-copyts")
    arguments += ["-filter_complex", graph]
    for number, bitrate in enumerate(track.bitrates):
        arguments += [
            *("-map", f"[out{number}]", "-c:a", "aac", "-b:a", str(bitrate), "-ar", str(SAMPLE_RATE)),
            *("-flags:a", "+bitexact", "-fflags", "+bitexact", "-map_metadata", "-1", "-map_chapters", "-1"),
            *("-f", "mp4", "-movflags", "+empty_moov+default_base_moof+skip_trailer"),
            *("-frag_duration", "6000000", f"{track.folder(bitrate)}.mp4"),
        ]
    return arguments


def _exact(plan: EncodePlan) -> str:
    return f"{plan.origin.numerator}/{plan.origin.denominator}"


# What ffmpeg wrote


def _first_frame(statistics: Path) -> int | None:
    """The grid position (counted from the chunk's start) of the first frame that reached an encoder."""
    with statistics.open() as lines:
        first = lines.readline().split()
    return int(first[1]) if len(first) == 2 else None


def _cut_picture(plan: EncodePlan, chunk: Chunk, rendition: RenditionPlan, folder: Path) -> int:
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


def _cut_sound(plan: EncodePlan, name: str, folder: Path) -> None:
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


# Folders


def _same_build(plan: EncodePlan, binary: Path) -> None:
    build = ffmpeg.build_id(binary)
    if plan.ffmpeg != build:
        raise ChunkRefused(f"the plan is for ffmpeg {plan.ffmpeg}; here is {build}, which gives other bytes")


@contextmanager
def _workshop(into: Path, name: str) -> Iterator[Path]:
    """A folder of its own, on the same disk as the result, gone afterwards."""
    into.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=into))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(folder: Path, into: Path, names: list[str]) -> tuple[Written, ...]:
    """Move what was made to its place, initialisation segments first: they must be the same in every chunk."""
    for name in names:
        there = into / name / INIT
        if there.exists() and there.read_bytes() != (folder / name / INIT).read_bytes():
            raise ChunkRefused(f"{name}/{INIT} differs from the one that other chunks of this plan have")
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
