"""What another machine says it has found in a source: nothing of it is believed before it was compared with its bounds.

The plan is made from it, and with that the command lines of ffmpeg on every worker.
"""

import dataclasses
import json
import math
import re
import typing
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from videos.media import containers, serial
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

MOST_BYTES = 4 << 20
MOST_KEYFRAMES = 50_000
"""More are thinned out by who sends them: a chunk then begins to read a little earlier."""
_MOST_WARNINGS = 100
_LARGEST = 2**53
_LATEST = Fraction(10**9)
"""Seconds: clocks of sources begin anywhere, but not there."""
_FRACTION = re.compile(r"-?[0-9]{1,18}/[1-9][0-9]{0,17}")
_WORD = re.compile(r"[a-z0-9_]{1,50}")
_LANGUAGE = re.compile(r"(?:[A-Za-z0-9-]{1,35})?")


class NotASource(ValueError):
    """It cannot be what was found in a source; the text says why."""


def thinned(info: SourceInfo) -> SourceInfo:
    """The same, with no more keyframes than are taken."""
    step = -(-len(info.video.keyframes) // MOST_KEYFRAMES) or 1
    return dataclasses.replace(
        info, video=dataclasses.replace(info.video, keyframes=info.video.keyframes[::step])
    )


def read(path: Path, *, limits: Limits, size: int) -> SourceInfo:
    """The description of a source of this size. Raises NotASource."""
    try:
        given = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise NotASource("it is not JSON") from None
    _check_form(SourceInfo, given, "source")
    info = serial.from_json(SourceInfo, given)
    if info.container not in containers.CONTAINERS:
        raise NotASource("container is none that is opened here")
    if info.size != size:
        raise NotASource(f"size is {info.size:,}, and the source has {size:,} bytes")
    if len(info.warnings) > _MOST_WARNINGS:
        raise NotASource("warnings are too many")
    _check_picture(info.video, limits)
    _check_tracks(info, limits)
    for track in info.audio:
        _check_sound(track)
    for text in info.subtitles:
        _check_text(text)
    return info


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _check_form(kind: Any, given: Any, name: str) -> None:
    """Every field is there and of its type, and no other is."""
    origin = typing.get_origin(kind)
    if origin is tuple:
        _need(isinstance(given, list) and len(given) <= MOST_KEYFRAMES, name)
        for item in given:
            _check_form(typing.get_args(kind)[0], item, name)
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        _need(isinstance(given, dict) and set(given) == set(hints), name)
        for field, wanted in hints.items():
            _check_form(wanted, given[field], field)
    elif kind is Fraction:
        _need(isinstance(given, str) and bool(_FRACTION.fullmatch(given)), name)
    elif kind is bool:
        _need(isinstance(given, bool), name)
    elif kind is int:
        _need(type(given) is int and 0 <= given < _LARGEST, name)
    elif kind is float:
        _need(type(given) in (int, float) and math.isfinite(given), name)
    else:
        assert kind is str, kind
        _need(isinstance(given, str) and len(given) <= 500 and given.isprintable(), name)


def _need(condition: bool, name: str) -> None:
    if not condition:
        raise NotASource(f"{name} is not what it must be")


def _check_picture(video: VideoTrack, limits: Limits) -> None:
    _need(video.codec in containers.VIDEO_CODECS, "codec")
    for name, width, height in (
        ("width", video.width, video.height),
        ("coded_width", video.coded_width, video.coded_height),
    ):
        large = width * height > limits.pixels or max(width, height) > limits.side
        _need(width > 0 and height > 0 and not large, name)
    _need(Fraction(1, 10) <= video.sample_aspect_ratio <= 10, "sample_aspect_ratio")
    _need(video.rotation in (0, 90, 180, 270), "rotation")
    _need(bool(_WORD.fullmatch(video.pix_fmt)), "pix_fmt")
    _need(1 <= video.bit_depth <= 32, "bit_depth")
    _need(video.hdr_transfer in ("", *HDR_TRANSFERS.values()), "hdr_transfer")
    _need(0 < video.frame_rate <= 1000, "frame_rate")
    _need(0 < video.average_rate <= 10**6, "average_rate")
    _need(Fraction(1, 10**12) <= video.time_base <= 10, "time_base")
    _need(-_LATEST < video.start < video.end < _LATEST, "start")
    _need(SHORTEST <= video.duration <= limits.duration, "end")
    _need(video.frames > 0, "frames")
    keyframes = video.keyframes
    _need(list(keyframes) == sorted(keyframes), "keyframes")
    _need(all(-_LATEST < at < _LATEST for at in (*keyframes[:1], *keyframes[-1:])), "keyframes")


def _check_tracks(info: SourceInfo, limits: Limits) -> None:
    indices = [info.video.index]
    indices += [track.index for track in info.audio] + [track.index for track in info.subtitles]
    if len(indices) > limits.streams or len({*indices}) < len(indices):
        raise NotASource("index: there are too many tracks, or two are the same")
    _need(max(indices) < limits.streams, "index")


def _check_sound(track: AudioTrack) -> None:
    _need(track.codec in containers.AUDIO_CODECS, "codec")
    _need(0 <= track.channels <= 1024 and 0 < track.sample_rate <= 10**7, "channels")
    _need(-_LATEST < track.start < _LATEST, "start")
    _check_names(track)


def _check_text(track: SubtitleTrack) -> None:
    _need(track.codec in containers.TEXT_SUBTITLES, "codec")
    _check_names(track)


def _check_names(track: AudioTrack | SubtitleTrack) -> None:
    _need(bool(_LANGUAGE.fullmatch(track.language)), "language")
    _need(len(track.title) <= LONGEST_TITLE, "title")
