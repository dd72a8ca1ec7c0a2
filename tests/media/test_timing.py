"""Sound with the picture: tracks, frame rates, and streams that start late."""

from fractions import Fraction
from pathlib import Path

import pytest

from tests.support.videos import conformance
from tests.support.videos.conformance import numbers_shown
from tests.support.videos.media_clips import (
    X264,
    make_clip,
    run_ffmpeg,
    transcode,
)
from videos.media.probe import probe


def test_a_file_without_sound(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "silent.mp4", frames=60, sounds=())
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan)
    assert not plan.audio
    assert "AUDIO" not in (tmp_path / "out" / "master.m3u8").read_text()


def test_several_sound_tracks_with_their_languages(tmp_path: Path) -> None:
    source = make_clip(
        tmp_path / "tracks.mkv",
        frames=60,
        sounds=(1000, 500, 2000),
        output=(
            *("-metadata:s:a:0", "language=deu", "-metadata:s:a:1", "language=eng"),
            *("-metadata:s:a:1", 'title=Say "hi"'),
            *("-disposition:a:0", "0", "-disposition:a:1", "default"),
        ),
    )
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan, sync=True)
    assert [(t.language, t.default) for t in plan.audio] == [("deu", False), ("eng", True), ("", False)]
    assert """NAME="Say 'hi'",LANGUAGE="eng",DEFAULT=YES""" in (tmp_path / "out" / "master.m3u8").read_text()


def test_a_variable_frame_rate_becomes_constant_without_losing_sync(tmp_path: Path) -> None:
    # Every third picture is missing in the middle second, and there is a hole of almost two seconds.
    source = make_clip(
        tmp_path / "vfr.mkv",
        frames=150,
        rate=30,
        video=(
            "-vf",
            "select='not(between(n,40,70)*eq(mod(n,3),0))*not(between(n,80,130)*gt(mod(n,15),0))'",
            *X264,
        ),
        output=("-fps_mode", "vfr"),
    )
    info = probe(source)
    assert info.video.variable_rate
    plan = transcode(source, tmp_path / "out", per_chunk=1)
    assert plan.frame_rate == 30
    shown = numbers_shown(tmp_path / "out", plan)
    assert len(shown) == plan.total_frames == 150
    there = [n for n in range(150) if not (40 <= n <= 70 and n % 3 == 0) and not (80 <= n <= 130 and n % 15)]
    assert shown == [max(m for m in there if m <= n) for n in range(150)]


@pytest.mark.parametrize(
    ("rate", "published"), [(50, 50), (60, 60), (Fraction(60000, 1001), None), (120, 60), (15, 15)]
)
def test_frame_rates_are_kept_up_to_sixty(tmp_path: Path, rate: Fraction, published: int | None) -> None:
    source = make_clip(tmp_path / "fast.mp4", frames=int(rate * 2), rate=rate)
    plan = transcode(source, tmp_path / "out", per_chunk=1)
    conformance.check(tmp_path / "out", plan, sync=True)
    assert plan.frame_rate == (published or rate)


def test_a_start_time_far_from_zero(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "late.ts", frames=80, output=("-output_ts_offset", "5000"))
    assert probe(source).video.start > 5000
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan, sync=True)
    assert numbers_shown(tmp_path / "out", plan) == list(range(80))


def test_sound_that_starts_later_than_the_picture_stays_where_it_is(tmp_path: Path) -> None:
    plain = make_clip(tmp_path / "plain.mp4", frames=100)
    source = tmp_path / "late-sound.mkv"
    run_ffmpeg(
        "-i", plain, "-itsoffset", "1", "-i", plain, "-map", "0:v", "-map", "1:a", "-c", "copy", source
    )
    assert probe(source).audio[0].start > Fraction(9, 10)
    plan = transcode(source, tmp_path / "out")
    _, sound = conformance.decode_rendition(tmp_path / "out" / plan.audio[0].folder(64_000) / "playlist.m3u8")
    _, picture = conformance.decode_rendition(tmp_path / "out" / "180p" / "playlist.m3u8")
    beeps, flashes = conformance.beep_times(sound), picture.flash_times or []
    assert len(flashes) == 4
    assert len(beeps) == 3
    assert all(abs(b - f) < Fraction(1, 25) for b, f in zip(beeps, flashes[1:], strict=True))


def test_a_picture_that_starts_after_the_sound_is_held_so_that_no_sound_is_lost(tmp_path: Path) -> None:
    plain = make_clip(tmp_path / "plain.mp4", frames=100, video=(*X264, "-g", "25"))
    source = tmp_path / "late-picture.mkv"
    run_ffmpeg(
        "-i", plain, "-itsoffset", "1", "-i", plain, "-map", "1:v", "-map", "0:a", "-c", "copy", source
    )
    plan = transcode(source, tmp_path / "out")
    held = plan.total_frames - 100
    assert held in (25, 26)  # the sound's first frame, which primes the decoder, comes before 0
    assert numbers_shown(tmp_path / "out", plan) == [0] * held + list(range(100))
