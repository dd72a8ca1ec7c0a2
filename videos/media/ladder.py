"""The quality ladder: which sizes a source is published in."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One quality. Bitrates are in bits per second."""

    name: str
    short_side: int
    video_bitrate: int
    audio_bitrate: int


def _rung(short_side: int, video: int, audio: int) -> Rung:
    return Rung(
        name=f"{short_side}p",
        short_side=short_side,
        video_bitrate=video * 1000,
        audio_bitrate=audio * 1000,
    )


LADDER: tuple[Rung, ...] = (
    _rung(2160, 15000, 192),
    _rung(1440, 8000, 192),
    _rung(1080, 5000, 128),
    _rung(720, 2500, 128),
    _rung(480, 1000, 96),
    _rung(360, 600, 96),
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """A rung, and the exact size the source has on it: even, square pixels, the source's shape."""

    rung: Rung
    width: int
    height: int


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a source gets, largest first, and which rungs are above it."""

    sizes: tuple[Size, ...]
    skipped: tuple[Rung, ...]


def rungs_for(width: int, height: int, *, ladder: Sequence[Rung] = LADDER) -> Choice:
    """The rungs for a picture of this size (as shown: after rotation, with square pixels).

    A rung is as high as the picture's short side, so a portrait video has the same qualities as the same
    video lying down. Nothing is ever enlarged; a picture below every rung gets one of its own size.
    """
    short = min(width, height)
    ladder = sorted(ladder, key=lambda rung: -rung.short_side)
    fitting = [rung for rung in ladder if rung.short_side <= short]
    skipped = tuple(rung for rung in ladder if rung.short_side > short)
    if not fitting:
        rung = _own_rung(short, like=ladder[-1])
        return Choice(sizes=(Size(rung=rung, width=_even(width), height=_even(height)),), skipped=skipped)
    return Choice(
        sizes=tuple(
            Size(
                rung=rung,
                width=_nearest_even(width * rung.short_side / short),
                height=_nearest_even(height * rung.short_side / short),
            )
            for rung in fitting
        ),
        skipped=skipped,
    )


def _own_rung(short: int, *, like: Rung) -> Rung:
    """A rung for a picture below the ladder: fewer bits, but not as few as there are fewer pixels."""
    bitrate = round(like.video_bitrate * (short / like.short_side) ** 1.5, -3)
    return Rung(
        name=f"{_even(short)}p",
        short_side=short,
        video_bitrate=max(64_000, int(bitrate)),
        audio_bitrate=like.audio_bitrate,
    )


def _even(length: int) -> int:
    """Even, and not above what there is."""
    return max(2, length // 2 * 2)


def _nearest_even(length: float) -> int:
    return max(2, round(length / 2) * 2)
