"""HLS playlists: plain text, built from the plan and from what is really in the segments."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

VERSION = 7


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One line of a media playlist."""

    name: str
    duration: Fraction
    size: int

    @property
    def bandwidth(self) -> Fraction:
        return self.size * 8 / self.duration


@dataclass(frozen=True, kw_only=True)
class Rendition:
    """One finished quality (or sound track): what the master playlist says about it."""

    name: str
    codec: str
    segments: tuple[Segment, ...]
    width: int = 0
    height: int = 0
    frame_rate: Fraction = Fraction(0)

    @property
    def peak_bandwidth(self) -> int:
        """Bits per second of the largest run of segments that is 0.5 to 1.5 target durations long (RFC 8216)."""
        target = target_duration(self.segments)
        peak = Fraction(0)
        for start in range(len(self.segments)):
            size, duration = 0, Fraction(0)
            for segment in self.segments[start:]:
                size += segment.size
                duration += segment.duration
                if duration > target * Fraction(3, 2):
                    break
                if duration >= target / Fraction(2):
                    peak = max(peak, size * 8 / duration)
        # A single short segment is all there is, or the last one.
        return _up(peak or max(segment.bandwidth for segment in self.segments))

    @property
    def average_bandwidth(self) -> int:
        return _up(self.size * 8 / self.duration)

    @property
    def duration(self) -> Fraction:
        return sum((segment.duration for segment in self.segments), Fraction(0))

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


@dataclass(frozen=True, kw_only=True)
class Sound:
    """A sound track in one bitrate, as the master playlist offers it."""

    rendition: Rendition
    group: str
    label: str
    language: str
    default: bool
    channels: int


@dataclass(frozen=True, kw_only=True)
class Captions:
    """A track of subtitles."""

    label: str
    language: str
    uri: str
    default: bool = False
    forced: bool = False


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A quality of the picture, and the group of sound that goes with it ("" where there is none)."""

    rendition: Rendition
    audio_group: str


def target_duration(segments: Sequence[Segment]) -> int:
    """RFC 8216: every EXTINF, rounded to the nearest integer, is at most this."""
    return max(1, *(_nearest(segment.duration) for segment in segments))


def media_playlist(segments: Sequence[Segment], *, init: str = "init.mp4") -> str:
    """The playlist of one rendition: all of it, from the start, for ever."""
    lines = [
        "#EXTM3U",
        f"#EXT-X-VERSION:{VERSION}",
        f"#EXT-X-TARGETDURATION:{target_duration(segments)}",
        "#EXT-X-MEDIA-SEQUENCE:1",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        f'#EXT-X-MAP:URI="{_safe(init)}"',
    ]
    for segment in segments:
        lines += [f"#EXTINF:{_seconds(segment.duration)},", segment.name]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def captions_playlist(uri: str, duration: Fraction) -> str:
    """The playlist of a WebVTT file that is one segment."""
    lines = [
        "#EXTM3U",
        f"#EXT-X-VERSION:{VERSION}",
        f"#EXT-X-TARGETDURATION:{max(1, _nearest(duration))}",
        "#EXT-X-MEDIA-SEQUENCE:1",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        f"#EXTINF:{_seconds(duration)},",
        uri,
    ]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def master_playlist(
    variants: Sequence[Variant], *, sounds: Sequence[Sound] = (), captions: Sequence[Captions] = ()
) -> str:
    """What a player opens: every quality, sound track and subtitle there is."""
    lines = ["#EXTM3U", f"#EXT-X-VERSION:{VERSION}", "#EXT-X-INDEPENDENT-SEGMENTS"]
    lines += [_sound_line(sound) for sound in sounds]
    lines += [_captions_line(track) for track in captions]
    for variant in variants:
        rendition = variant.rendition
        group = [sound.rendition for sound in sounds if sound.group == variant.audio_group]
        codecs = dict.fromkeys([rendition.codec, *(sound.codec for sound in group)])
        peak = max((sound.peak_bandwidth for sound in group), default=0)
        average = max((sound.average_bandwidth for sound in group), default=0)
        attributes = [
            f"BANDWIDTH={rendition.peak_bandwidth + peak}",
            f"AVERAGE-BANDWIDTH={rendition.average_bandwidth + average}",
            f'CODECS="{",".join(codecs)}"',
            f"RESOLUTION={rendition.width}x{rendition.height}",
            f"FRAME-RATE={_decimals(rendition.frame_rate, 3)}",
        ]
        attributes += [f'AUDIO="{_safe(variant.audio_group)}"'] if group else []
        attributes += ['SUBTITLES="subtitles"'] if captions else []
        lines += [f"#EXT-X-STREAM-INF:{','.join(attributes)}", f"{rendition.name}/playlist.m3u8"]
    return "\n".join([*lines, ""])


# Reading what we wrote


@dataclass(frozen=True, kw_only=True)
class MediaList:
    """A media playlist, read back."""

    target_duration: int
    init: str
    segments: tuple[tuple[str, Fraction], ...]
    ended: bool


def parse_media(text: str) -> MediaList:
    """Read a media playlist of ours; raises ValueError where it is not one."""
    lines = _lines(text)
    target, init, duration, ended = 0, "", None, False
    segments: list[tuple[str, Fraction]] = []
    for line in lines:
        tag, _, value = line.partition(":")
        if tag == "#EXT-X-TARGETDURATION":
            target = int(value)
        elif tag == "#EXT-X-MAP":
            init = attributes(value).get("URI", "")
        elif tag == "#EXTINF":
            duration = Fraction(value.split(",")[0])
        elif line == "#EXT-X-ENDLIST":
            ended = True
        elif not line.startswith("#"):
            if duration is None:
                raise ValueError(f"{line} has no EXTINF")
            segments.append((line, duration))
            duration = None
    return MediaList(target_duration=target, init=init, segments=tuple(segments), ended=ended)


def parse_master(text: str) -> tuple[dict[str, dict[str, str]], list[dict[str, str]]]:
    """The variants of a master playlist by their addresses, and its EXT-X-MEDIA lines."""
    variants: dict[str, dict[str, str]] = {}
    media: list[dict[str, str]] = []
    pending: dict[str, str] | None = None
    for line in _lines(text):
        tag, _, value = line.partition(":")
        if tag == "#EXT-X-STREAM-INF":
            pending = attributes(value)
        elif tag == "#EXT-X-MEDIA":
            media.append(attributes(value))
        elif not line.startswith("#") and pending is not None:
            variants[line] = pending
            pending = None
    return variants, media


def attributes(text: str) -> dict[str, str]:
    return {
        match["name"]: match["quoted"] if match["quoted"] is not None else match["plain"]
        for match in _ATTRIBUTE.finditer(text)
    }


def _lines(text: str) -> list[str]:
    lines = [line for line in text.split("\n") if line]
    if not lines or lines[0] != "#EXTM3U":
        raise ValueError("this is no playlist")
    return lines


_ATTRIBUTE = re.compile(r'(?P<name>[A-Z0-9-]+)=(?:"(?P<quoted>[^"]*)"|(?P<plain>[^",]*))(?:,|$)')


# Writing


def _sound_line(sound: Sound) -> str:
    attributes = [
        "TYPE=AUDIO",
        f'GROUP-ID="{_safe(sound.group)}"',
        f'NAME="{_safe(sound.label)}"',
        *([f'LANGUAGE="{_safe(sound.language)}"'] if sound.language else []),
        f"DEFAULT={'YES' if sound.default else 'NO'}",
        "AUTOSELECT=YES",
        f'CHANNELS="{sound.channels}"',
        f'URI="{_safe(sound.rendition.name)}/playlist.m3u8"',
    ]
    return f"#EXT-X-MEDIA:{','.join(attributes)}"


def _captions_line(track: Captions) -> str:
    attributes = [
        "TYPE=SUBTITLES",
        'GROUP-ID="subtitles"',
        f'NAME="{_safe(track.label)}"',
        *([f'LANGUAGE="{_safe(track.language)}"'] if track.language else []),
        f"DEFAULT={'YES' if track.default else 'NO'}",
        "AUTOSELECT=YES",
        f"FORCED={'YES' if track.forced else 'NO'}",
        f'URI="{_safe(track.uri)}"',
    ]
    return f"#EXT-X-MEDIA:{','.join(attributes)}"


def _safe(text: str) -> str:
    """A quoted string of HLS cannot hold quotes or line breaks, and has no way to escape them."""
    return "".join(" " if not c.isprintable() else "'" if c == '"' else c for c in text).strip()


def _up(value: Fraction) -> int:
    return -int(-value // 1)


def _nearest(value: Fraction) -> int:
    return int(value + Fraction(1, 2))


def _seconds(value: Fraction) -> str:
    return _decimals(value, 6)


def _decimals(value: Fraction, digits: int) -> str:
    """Rounded exactly, not through a float."""
    scaled = _nearest(value * 10**digits)
    return f"{scaled // 10**digits}.{scaled % 10**digits:0{digits}d}"
