"""Is it conformant HLS, and is it what the plan says? Playlists are parsed with `m3u8`, media is decoded with PyAV.

Nothing of videos.media's own reading of boxes and playlists is used: two independent readers must agree.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import m3u8  # type: ignore[import-untyped]
import numpy as np

from tests.support.videos.media_clips import flashes, read_number
from videos.media.plan import EncodePlan

MICROSECOND = Fraction(1, 1_000_000)
AAC_FRAME = 1024


@dataclass
class Decoded:
    """One rendition: every picture (or run of samples) with its time."""

    times: list[Fraction]
    keyframes: list[Fraction]
    lengths: list[Fraction]
    """How long each segment lasts, by its packets."""
    sizes: list[int]
    starts: list[Fraction]
    """When each segment shows its first picture."""
    codec: str
    width: int = 0
    height: int = 0
    pix_fmt: str = ""
    flash_times: list[Fraction] | None = None
    samples: Any = None
    sample_rate: int = 0


def check(folder: Path, plan: EncodePlan, *, sync: bool = False) -> None:
    """Raise AssertionError with everything that is wrong. `sync` compares flashes and beeps (media_clips)."""
    problems = list(find_problems(folder, plan, sync=sync))
    assert not problems, "\n".join(problems)


def find_problems(folder: Path, plan: EncodePlan, *, sync: bool) -> Iterator[str]:
    master = m3u8.load(str(folder / "master.m3u8"))
    if not master.is_variant or not master.is_independent_segments or int(master.version or 0) < 7:
        yield "master.m3u8 is no variant playlist of version 7 with independent segments"
    if [p.uri for p in master.playlists] != [f"{r.name}/playlist.m3u8" for r in plan.renditions]:
        yield f"master.m3u8 lists {[p.uri for p in master.playlists]}"
    sounds: dict[str, Decoded] = {}
    for media in master.media:
        if media.type == "AUDIO":
            problems, sounds[media.uri] = decode_rendition(folder / media.uri)
            yield from problems
            yield from check_sound(media.uri, sounds[media.uri], plan)
    keyframes: dict[str, list[Fraction]] = {}
    for variant, rendition in zip(master.playlists, plan.renditions, strict=False):
        problems, picture = decode_rendition(folder / variant.uri)
        yield from problems
        yield from check_picture(variant.uri, picture, plan)
        if (picture.width, picture.height) != (rendition.width, rendition.height):
            yield f"{variant.uri} is {picture.width}×{picture.height}"
        group = [
            sounds[m.uri]
            for m in master.media
            if m.type == "AUDIO" and m.group_id == variant.stream_info.audio
        ]
        yield from check_stream_info(variant, picture, group, plan)
        keyframes[variant.uri] = picture.keyframes
        if sync:
            for sound in group:
                yield from check_sync(variant.uri, picture, sound, plan)
    if len({tuple(times) for times in keyframes.values()}) > 1:
        yield "keyframes are not aligned across renditions"


def decode_rendition(playlist: Path) -> tuple[list[str], Decoded]:
    """Decode all of a rendition through one decoder, as a player does, and each segment by itself."""
    problems = []
    listed = m3u8.load(str(playlist))
    name = playlist.parent.name
    if not listed.is_endlist or listed.playlist_type != "vod" or len(listed.segment_map) != 1:
        problems.append(f"{name}: the playlist is not a finished one with one initialisation segment")
    init = (playlist.parent / listed.segment_map[0].uri).read_bytes()
    parts = [(playlist.parent / segment.uri).read_bytes() for segment in listed.segments]
    whole = decode(init + b"".join(parts))
    for segment, part in zip(listed.segments, parts, strict=True):
        alone = decode(init + part, pictures=False)
        whole.lengths.append(sum(alone.lengths, Fraction(0)))
        whole.sizes.append(len(part))
        whole.starts.append(min(alone.times))
        if min(alone.keyframes, default=None) != min(alone.times):
            problems.append(f"{name}/{segment.uri} does not start with a keyframe")
        if abs(Fraction(str(segment.duration)) - whole.lengths[-1]) > 2 * MICROSECOND:
            problems.append(
                f"{name}/{segment.uri}: EXTINF {segment.duration}, media {float(whole.lengths[-1])}"
            )
        if round(segment.duration) > listed.target_duration:
            problems.append(f"{name}/{segment.uri} is longer than the target duration")
    return problems, whole


def decode(data: bytes, *, pictures: bool = True) -> Decoded:
    with av.open(io.BytesIO(data), format="mov") as container:
        stream = container.streams[0]
        if stream.type == "video":
            return _decode_picture(container, stream) if pictures else _packets(container, stream)
        return _decode_sound(container, stream) if pictures else _packets(container, stream)


def _packets(container: Any, stream: Any) -> Decoded:
    packets = [p for p in container.demux(stream) if p.size]
    return Decoded(
        times=[p.pts * p.time_base for p in packets],
        keyframes=[p.pts * p.time_base for p in packets if p.is_keyframe],
        lengths=[p.duration * p.time_base for p in packets],
        sizes=[],
        starts=[],
        codec="",
    )


def _decode_picture(container: Any, stream: Any) -> Decoded:
    found = Decoded([], [], [], [], [], codec=_picture_codec(stream), flash_times=[])
    lit = False
    for frame in container.decode(stream):
        time = frame.pts * frame.time_base
        found.times.append(time)
        if frame.key_frame:
            found.keyframes.append(time)
        found.width, found.height, found.pix_fmt = frame.width, frame.height, frame.format.name
        light = flashes(luma(frame))
        if light and not lit:
            assert found.flash_times is not None
            found.flash_times.append(time)
        lit = light
    return found


def _picture_codec(stream: Any) -> str:
    """The name in CODECS, from what ffmpeg has read."""
    tag, extradata = stream.codec_context.codec_tag, bytes(stream.codec_context.extradata)
    if tag == "avc1":
        return f"avc1.{extradata[1:4].hex()}"
    if tag == "hvc1" and extradata[1:12].hex() == "01" + "60000000" + "900000000000":  # Main, progressive
        return f"hvc1.1.6.L{extradata[12]}.90"
    return f"? {tag} {stream.profile} {extradata[:12].hex()}"


def luma(frame: Any) -> "np.ndarray[Any, Any]":
    plane = frame.planes[0]
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: frame.height, : frame.width]


def _decode_sound(container: Any, stream: Any) -> Decoded:
    found = Decoded(
        [], [], [], [], [], codec="mp4a.40.2" if "LC" in str(stream.profile) else f"? {stream.profile}"
    )
    found.sample_rate = stream.codec_context.sample_rate
    samples = []
    for frame in container.decode(stream):
        found.times.append(frame.pts * frame.time_base)
        samples.append(frame.to_ndarray().mean(axis=0))
    found.samples = np.concatenate(samples) if samples else np.zeros(0)
    return found


def check_picture(name: str, picture: Decoded, plan: EncodePlan) -> Iterator[str]:
    wanted = [plan.zero + n / plan.frame_rate for n in range(plan.total_frames)]
    if len(picture.times) != len(wanted):
        yield f"{name}: {len(picture.times)} frames, the plan has {len(wanted)}"
    yield from check_contiguous(name, picture.times, 1 / plan.frame_rate)
    if picture.times != wanted:
        yield f"{name}: frames are not at the plan's times (first: {picture.times[:1]}, planned: {wanted[:1]})"
    if picture.keyframes != wanted[:: plan.segment_frames]:
        yield f"{name}: keyframes are not at the start of each segment"
    if picture.starts != wanted[:: plan.segment_frames]:
        yield f"{name}: segments do not start at the plan's times"
    if picture.pix_fmt != "yuv420p":
        yield f"{name}: the picture is {picture.pix_fmt}"


def check_sound(name: str, sound: Decoded, plan: EncodePlan) -> Iterator[str]:
    if not sound.times:
        yield f"{name}: there is no sound"
        return
    frame = Fraction(AAC_FRAME, sound.sample_rate)
    yield from check_contiguous(name, sound.times, frame)
    if abs(sound.times[0] - plan.zero) > frame:
        yield f"{name}: sound starts at {float(sound.times[0])}, the picture at {float(plan.zero)}"
    end, picture_end = sound.times[-1] + frame, plan.zero + plan.duration
    if abs(end - picture_end) > frame:
        yield f"{name}: sound ends at {float(end)}, the picture at {float(picture_end)}"
    for number, start in enumerate(sound.starts):
        border = plan.zero + number * plan.segment_frames / plan.frame_rate
        if abs(start - border) > frame:
            yield f"{name}: segment {number + 1} starts {float(start - border):.3f} s off the picture's"
    if sound.codec != "mp4a.40.2":
        yield f"{name}: the sound is {sound.codec}"


def check_contiguous(name: str, times: list[Fraction], step: Fraction) -> Iterator[str]:
    for number, (earlier, later) in enumerate(pairwise(times)):
        if abs(later - earlier - step) > 25 * MICROSECOND:  # sound's clock cannot hit every instant
            yield f"{name}: {float(later - earlier)} s between {number} and {number + 1}, not {float(step)}"
            return


def check_stream_info(
    variant: Any, picture: Decoded, group: list[Decoded], plan: EncodePlan
) -> Iterator[str]:
    info = variant.stream_info
    if bool(group) != bool(plan.audio):
        yield f"{variant.uri} has {len(group)} sound tracks"
    if set(info.codecs.split(",")) != {picture.codec, *(sound.codec for sound in group)}:
        yield f"{variant.uri}: CODECS {info.codecs}, the media has {picture.codec}"
    if info.resolution != (picture.width, picture.height):
        yield f"{variant.uri}: RESOLUTION {info.resolution}"
    if abs(info.frame_rate - float(plan.frame_rate)) > 0.001:
        yield f"{variant.uri}: FRAME-RATE {info.frame_rate}"
    average = _average(picture) + max((_average(sound) for sound in group), default=0)
    if abs(info.average_bandwidth - average) > 3:
        yield f"{variant.uri}: AVERAGE-BANDWIDTH {info.average_bandwidth}, the media has {average:.0f}"
    peak = _peak(picture) + max((_peak(sound) for sound in group), default=0)
    if info.bandwidth < peak - 1 or info.bandwidth > peak * 1.001 + 3:
        yield f"{variant.uri}: BANDWIDTH {info.bandwidth}, the media's peak is {peak:.0f}"


def _average(rendition: Decoded) -> float:
    return float(sum(rendition.sizes) * 8 / sum(rendition.lengths))


def _peak(rendition: Decoded) -> float:
    """RFC 8216, 4.1: over any run of segments between half and one and a half target durations."""
    target = max(1, *(int(length + Fraction(1, 2)) for length in rendition.lengths))
    peaks = []
    for start in range(len(rendition.sizes)):
        for end in range(start + 1, len(rendition.sizes) + 1):
            length = sum(rendition.lengths[start:end])
            if length > Fraction(3, 2) * target:
                break
            if length >= Fraction(target, 2):
                peaks.append(sum(rendition.sizes[start:end]) * 8 / length)
    return float(max(peaks, default=_average(rendition)))


def check_sync(name: str, picture: Decoded, sound: Decoded, plan: EncodePlan) -> Iterator[str]:
    """Each flash has its beep within one frame."""
    beeps = beep_times(sound)
    seen = picture.flash_times or []
    if not seen or len(seen) != len(beeps):
        yield f"{name}: {len(seen)} flashes, {len(beeps)} beeps"
        return
    worst = max((flash - beep for flash, beep in zip(seen, beeps, strict=True)), key=abs)
    if abs(worst) > 1 / plan.frame_rate:
        yield f"{name}: sound is {float(worst) * 1000:.1f} ms off the picture"


def beep_times(sound: Decoded) -> list[Fraction]:
    """When it becomes loud after silence."""
    window = sound.sample_rate // 1000
    level = np.abs(sound.samples[: len(sound.samples) // window * window]).reshape(-1, window).max(axis=1)
    loud = level > 0.2
    times, quiet = [], 1000
    for number, noise in enumerate(loud):
        if noise and quiet > 100:
            times.append(sound.times[0] + Fraction(number, 1000))
        quiet = 0 if noise else quiet + 1
    return times


def numbers_shown(folder: Path, plan: EncodePlan, *, quality: int = 0) -> list[int]:
    """The numbers of the source's pictures, as published."""
    name = plan.renditions[quality].name
    data = (folder / name / "init.mp4").read_bytes()
    data += b"".join(path.read_bytes() for path in sorted((folder / name).glob("seg_*.m4s")))
    path = folder / f"{name}.whole.mp4"
    path.write_bytes(data)
    with av.open(str(path)) as container:
        return [read_number(luma(frame)) for frame in container.decode(video=0)]
