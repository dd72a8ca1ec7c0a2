"""What a source file is, as far as the pipeline cares."""

from dataclasses import dataclass
from fractions import Fraction

SHORTEST = Fraction(1, 100)
LONGEST_TITLE = 100
HDR_TRANSFERS = {16: "smpte2084", 18: "arib-std-b67"}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is too much."""

    pixels: int = 8192 * 4608
    side: int = 16384
    duration: float = 12 * 3600
    streams: int = 64
    scan_seconds: float = 600


@dataclass(frozen=True, kw_only=True)
class VideoTrack:
    """The picture. Times are in seconds on the file's own clock."""

    index: int
    codec: str
    width: int
    """As shown: after the sample aspect ratio and the rotation."""
    height: int
    coded_width: int
    coded_height: int
    sample_aspect_ratio: Fraction
    rotation: int
    """Clockwise, in degrees: 0, 90, 180 or 270."""
    pix_fmt: str
    bit_depth: int
    hdr_transfer: str
    """"smpte2084" (PQ), "arib-std-b67" (HLG), or "" for an ordinary picture."""
    interlaced: bool
    frame_rate: Fraction
    """How often pictures come when they come regularly."""
    average_rate: Fraction
    variable_rate: bool
    time_base: Fraction
    start: Fraction
    """When the first picture is shown."""
    end: Fraction
    """When the last picture ends."""
    frames: int
    """Pictures counted in the file."""
    keyframes: tuple[float, ...]
    """Where decoding can start, where the container has no index to say so itself; else empty."""

    @property
    def duration(self) -> Fraction:
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class AudioTrack:
    """One sound track."""

    index: int
    codec: str
    channels: int
    sample_rate: int
    language: str
    title: str
    default: bool
    start: Fraction


@dataclass(frozen=True, kw_only=True)
class SubtitleTrack:
    """One track of text subtitles."""

    index: int
    codec: str
    language: str
    title: str
    default: bool
    forced: bool


@dataclass(frozen=True, kw_only=True)
class SourceInfo:
    """A file that can be published."""

    container: str
    size: int
    video: VideoTrack
    audio: tuple[AudioTrack, ...]
    subtitles: tuple[SubtitleTrack, ...]
    warnings: tuple[str, ...]
    """What the uploader should know: "The file is cut short.", "A sound track could not be used."."""
