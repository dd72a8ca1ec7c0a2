"""Look at a file that someone uploaded: what it is, or why it cannot be published.

This is for a process of its own (examine.py): the libraries behind PyAV parse whatever the file holds, in this process.

The file is opened with the one demuxer that its first bytes stand for, read once from end to end (packets
only; nothing but a few first pictures is decoded), and refused with a sentence a person understands.
"""

import logging
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import av
import av.error
from av.stream import Disposition

from videos.media import containers, rates
from videos.media.containers import Container
from videos.media.encryption import is_encrypted
from videos.media.exceptions import NotPlayable
from videos.media.source import (
    HDR_TRANSFERS,
    LONGEST_TITLE,
    SHORTEST,
    AudioTrack,
    Limits,
    SourceInfo,
    SubtitleTrack,
    VideoTrack,
)

# ffmpeg's own complaints about odd files belong to the attempt that hits them, not to the site's log.
av.logging.set_level(av.logging.PANIC)
logger = logging.getLogger(__name__)

PICTURES_LOOKED_AT = 8
PACKETS_TRIED = 600
"""How far to look for a first picture: a stream may start in the middle of a group."""


def probe(path: Path, *, limits: Limits = Limits()) -> SourceInfo:  # noqa: B008 (frozen)
    """What the file is; raises NotPlayable when it is nothing we can publish."""
    if not path.is_file():
        raise NotPlayable("The file is not there.", code="missing")
    container = containers.sniff(path)
    if container is containers.MOV and is_encrypted(path):
        raise NotPlayable("The file is encrypted. Upload it without copy protection.", code="encrypted")
    try:
        with _open(path, container, limits) as source:
            return _Prober(path, container, source, limits).run()
    except (av.error.FFmpegError, OSError, ValueError) as error:
        logger.info("cannot open %s: %s", path.name, error)
        raise NotPlayable(
            "The file is damaged or incomplete: it cannot be opened.", code="damaged"
        ) from error


def _open(path: Path, container: Container, limits: Limits) -> Any:
    return av.open(
        str(path),
        format=container.demuxer,
        options={
            "protocol_whitelist": "file",
            "format_whitelist": container.full_name,
            "codec_whitelist": containers.whitelist(containers.VIDEO_DECODERS, containers.AUDIO_DECODERS),
            "max_streams": str(limits.streams + 1),
        },
    )


class _Prober:
    """One look at one open file."""

    def __init__(self, path: Path, container: Container, source: Any, limits: Limits) -> None:
        self.path = path
        self.container = container
        self.source = source
        self.limits = limits
        self.warnings: list[str] = []
        self.sound_streams: list[Any] = []
        self.sound_starts: dict[int, Fraction] = {}
        self.sound_end = Fraction(0)

    def run(self) -> SourceInfo:
        if len(self.source.streams) > self.limits.streams:
            raise NotPlayable(f"The file has more than {self.limits.streams} tracks.", code="too_many_tracks")
        self.sound_streams = [stream for stream in self.source.streams.audio if self.usable_sound(stream)]
        stream = self.picture_stream()
        self.refuse_sizes(stream.codec_context.width, stream.codec_context.height)
        frames = self.first_pictures(stream)
        self.refuse_sizes(frames[0].width, frames[0].height)
        video = self.video_track(stream, frames)
        return SourceInfo(
            container=self.container.name,
            size=self.path.stat().st_size,
            video=video,
            audio=tuple(self.audio_tracks()),
            subtitles=tuple(self.subtitle_tracks()),
            warnings=tuple(self.warnings),
        )

    # The picture

    def picture_stream(self) -> Any:
        streams = [s for s in self.source.streams.video if not s.disposition & Disposition.attached_pic]
        if not streams:
            raise (
                NotPlayable("The file has sound but no picture.", code="sound_only")
                if self.source.streams.audio
                else NotPlayable("The file has no picture.", code="no_video")
            )
        known = [s for s in streams if s.codec_context and s.codec_context.name in containers.VIDEO_CODECS]
        if not known:
            codec = streams[0].codec_context
            raise NotPlayable(
                f"The picture is in a format we don't decode ({codec.name if codec else 'unknown'}).",
                code="unknown_codec",
            )
        return max(
            known,
            key=lambda s: (
                bool(s.disposition & Disposition.default),
                s.codec_context.width * s.codec_context.height,
                -s.index,
            ),
        )

    def refuse_sizes(self, width: int, height: int) -> None:
        if width <= 0 or height <= 0:  # also what ffmpeg makes of sizes that no memory could hold
            raise NotPlayable("The picture has no size, or an absurd one.", code="absurd_size")
        if width * height > self.limits.pixels or max(width, height) > self.limits.side:
            raise NotPlayable(f"The picture is too large: {width}×{height}.", code="picture_too_large")

    def first_pictures(self, stream: Any) -> list[Any]:
        frames: list[Any] = []
        stream.thread_type = "SLICE"  # frame threads would only delay the first pictures
        for packet in self.packets(stream, at_most=PACKETS_TRIED):
            try:
                frames.extend(f for f in packet.decode() if f.pts is not None)
            except av.error.FFmpegError:
                continue  # a damaged picture; others may follow
            if len(frames) >= PICTURES_LOOKED_AT:
                break
        if not frames:
            raise NotPlayable(
                "No picture in the file can be decoded; it is damaged or encrypted.", code="undecodable"
            )
        return frames

    def packets(self, stream: Any, *, at_most: int) -> Iterator[Any]:
        """The stream's first packets."""
        yield from islice(self.until_it_breaks_off(self.source, stream), at_most)

    def all_packets(self, indices: list[int]) -> Iterator[Any]:
        """All packets of these streams, from a file opened anew: not every container can be rewound exactly."""
        with _open(self.path, self.container, self.limits) as source:
            yield from self.until_it_breaks_off(source, *(source.streams[index] for index in indices))

    def until_it_breaks_off(self, source: Any, *streams: Any) -> Iterator[Any]:
        try:
            yield from source.demux(*streams)
        except av.error.FFmpegError:
            self.warn("The file is damaged; what could be read is used.")

    def video_track(self, stream: Any, frames: list[Any]) -> VideoTrack:
        first = min(frames, key=lambda f: f.pts)
        times = self.scan(stream, first.pts)
        base: Fraction = stream.time_base
        rate = rates.measure(times.shown, base, self.declared_rates(stream))
        end = times.end
        if end <= times.shown[-1] and len(times.shown) > 1:  # nothing says how long the last picture lasts
            end = times.shown[-1] + round(1 / rate.usual / base)
        start, end_time = times.shown[0] * base, end * base
        self.refuse_durations(end_time - start)
        self.warn_if_short(end_time)
        rotation = round(-first.rotation / 90) % 4 * 90
        aspect = _sane_aspect(stream.sample_aspect_ratio or stream.codec_context.sample_aspect_ratio)
        width, height = _shown_size(first.width, first.height, aspect, rotation)
        self.refuse_sizes(width, height)
        return VideoTrack(
            index=stream.index,
            codec=_codec(stream),
            width=width,
            height=height,
            coded_width=first.width,
            coded_height=first.height,
            sample_aspect_ratio=aspect,
            rotation=rotation,
            pix_fmt=first.format.name,
            bit_depth=max(component.bits for component in first.format.components),
            hdr_transfer=HDR_TRANSFERS.get(int(first.color_trc), ""),
            interlaced=any(f.interlaced_frame for f in frames),
            frame_rate=rate.usual,
            average_rate=rate.average,
            variable_rate=rate.variable,
            time_base=base,
            start=start,
            end=end_time,
            frames=len(times.shown),
            keyframes=() if self.container.indexed else tuple(float(k * base) for k in times.keyframes),
        )

    def declared_rates(self, stream: Any) -> list[Fraction]:
        """What the container says, if it is possible at all."""
        said = (stream.average_rate, stream.guessed_rate, stream.base_rate)
        return [Fraction(rate) for rate in said if rate and 0 < rate <= 1000]

    def scan(self, stream: Any, first_shown: int) -> "_Times":
        """Every packet's time, from the first picture that can be shown."""
        shown, keyframes, end = array("q"), array("q"), 0
        deadline = time.monotonic() + self.limits.scan_seconds
        for packet in self.all_packets([stream.index, *(sound.index for sound in self.sound_streams)]):
            at = packet.pts if packet.pts is not None else packet.dts
            if packet.stream_index != stream.index:
                if at is not None:
                    self.sound_starts.setdefault(packet.stream_index, at * packet.time_base)
                    self.sound_end = max(self.sound_end, (at + (packet.duration or 0)) * packet.time_base)
                continue
            if at is None or not packet.size or packet.is_discard or at < first_shown:
                continue
            shown.append(at)
            end = max(end, at + (packet.duration or 0))
            if packet.is_keyframe:
                keyframes.append(at)
            if time.monotonic() > deadline:
                raise NotPlayable("The file takes too long to read.", code="slow_to_read")
        if not shown or shown[0] > first_shown:
            shown.insert(0, first_shown)
        return _Times(shown=array("q", sorted(set(shown))), keyframes=array("q", sorted(keyframes)), end=end)

    def refuse_durations(self, duration: Fraction) -> None:
        if duration < SHORTEST:
            raise NotPlayable("The video has no duration.", code="no_duration")
        if duration > self.limits.duration:
            hours = float(duration) / 3600
            raise NotPlayable(f"The video is too long: {hours:.1f} hours.", code="too_long")

    def warn_if_short(self, end: Fraction) -> None:
        tolerance = max(Fraction(1), end / 50)
        if self.sound_end - end > tolerance:
            self.warn(
                f"The sound goes on for {float(self.sound_end - end):.1f} s after the last picture; it is left out."
            )
        elif self.source.duration and self.source.start_time is not None:
            declared = Fraction(self.source.duration + self.source.start_time, 1_000_000)
            if declared - end > tolerance:
                self.warn(
                    f"The file is cut short: pictures end {float(declared - end):.1f} s before its end."
                )

    # The rest

    def usable_sound(self, stream: Any) -> bool:
        if _codec(stream) in containers.AUDIO_CODECS and stream.codec_context.sample_rate:
            return True
        self.warn(f"A sound track is left out: its format ({_codec(stream)}) cannot be decoded.")
        return False

    def audio_tracks(self) -> Iterator[AudioTrack]:
        for stream in self.sound_streams:
            if stream.index not in self.sound_starts:
                continue  # declared, but never heard of again
            codec = stream.codec_context
            yield AudioTrack(
                index=stream.index,
                codec=_codec(stream),
                channels=codec.channels,
                sample_rate=codec.sample_rate,
                language=_language(stream),
                title=stream.metadata.get("title", "").strip()[:LONGEST_TITLE],
                default=bool(stream.disposition & Disposition.default),
                start=self.sound_starts[stream.index],
            )

    def subtitle_tracks(self) -> Iterator[SubtitleTrack]:
        for stream in self.source.streams.subtitles:
            if _codec(stream) in containers.TEXT_SUBTITLES:
                yield SubtitleTrack(
                    index=stream.index,
                    codec=_codec(stream),
                    language=_language(stream),
                    title=stream.metadata.get("title", "").strip()[:LONGEST_TITLE],
                    default=bool(stream.disposition & Disposition.default),
                    forced=bool(stream.disposition & Disposition.forced),
                )

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


@dataclass(frozen=True)
class _Times:
    shown: "array[int]"
    keyframes: "array[int]"
    end: int


def _sane_aspect(aspect: Fraction | None) -> Fraction:
    if not aspect or not Fraction(1, 10) <= aspect <= 10:
        return Fraction(1)
    return Fraction(aspect)


def _shown_size(width: int, height: int, aspect: Fraction, rotation: int) -> tuple[int, int]:
    width = max(1, round(width * aspect))
    return (height, width) if rotation in (90, 270) else (width, height)


def _codec(stream: Any) -> str:
    """The format's name; a decoder may have another one (dca decodes dts)."""
    context = stream.codec_context
    return str(context.codec.canonical_name) if context is not None else "unknown"


def _language(stream: Any) -> str:
    """A language tag, or "" where the file says none or nonsense."""
    language = (stream.metadata.get("language") or "").strip()
    return (
        language if language.isascii() and language.replace("-", "").isalnum() and language != "und" else ""
    )
