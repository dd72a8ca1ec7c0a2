"""Ladder, frame rates and the plan: pure functions."""

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import ROOT
from videos import media
from videos.media import rates
from videos.media.ladder import LADDER, rungs_for
from videos.media.levels import level_for
from videos.media.plan import AAC_FRAME, SAMPLE_RATE, EncodePlan, PlanSettings, make_plan
from videos.media.source import AudioTrack, SourceInfo, VideoTrack

NTSC = Fraction(30000, 1001)


def source(
    *,
    rate: Fraction = Fraction(25),
    duration: Fraction = Fraction(100),
    start: Fraction = Fraction(0),
    size: tuple[int, int] = (1920, 1080),
    container: str = "mp4",
    keyframes: tuple[float, ...] = (),
    sounds: tuple[Fraction, ...] = (Fraction(0),),
    variable: bool = False,
) -> SourceInfo:
    video = VideoTrack(
        index=0,
        codec="h264",
        width=size[0],
        height=size[1],
        coded_width=size[0],
        coded_height=size[1],
        sample_aspect_ratio=Fraction(1),
        rotation=0,
        pix_fmt="yuv420p",
        bit_depth=8,
        hdr_transfer="",
        interlaced=False,
        frame_rate=rate,
        average_rate=rate,
        variable_rate=variable,
        time_base=Fraction(1, 90000),
        start=start,
        end=start + duration,
        frames=round(duration * rate),
        keyframes=keyframes,
    )
    audio = tuple(
        AudioTrack(
            index=n,
            codec="aac",
            channels=6,
            sample_rate=44100,
            language="eng",
            title="",
            default=False,
            start=at,
        )
        for n, at in enumerate(sounds, start=1)
    )
    return SourceInfo(container=container, size=1, video=video, audio=audio, subtitles=(), warnings=())


def plan(info: SourceInfo, **chosen: object) -> EncodePlan:
    return make_plan(
        info,
        rungs_for(info.video.width, info.video.height),
        ffmpeg_build="7.0.2-test",
        settings=PlanSettings(**chosen),  # type: ignore[arg-type]
    )


# The ladder


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        ((1920, 1080), ["1080p 1920x1080", "720p 1280x720", "480p 854x480", "360p 640x360"]),
        ((1080, 1920), ["1080p 1080x1920", "720p 720x1280", "480p 480x854", "360p 360x640"]),
        ((1279, 719), ["480p 854x480", "360p 640x360"]),
        ((640, 360), ["360p 640x360"]),
        ((639, 359), ["358p 638x358"]),
        ((200, 150), ["150p 200x150"]),
        ((1, 1), ["2p 2x2"]),
        ((1920, 800), ["720p 1728x720", "480p 1152x480", "360p 864x360"]),
    ],
)
def test_a_source_gets_the_rungs_below_its_short_side(size: tuple[int, int], sizes: list[str]) -> None:
    choice = rungs_for(*size)
    assert [f"{s.rung.name} {s.width}x{s.height}" for s in choice.sizes] == sizes


def test_rungs_above_the_source_are_named_as_skipped() -> None:
    assert [rung.name for rung in rungs_for(1280, 720).skipped] == ["2160p", "1440p", "1080p"]
    assert rungs_for(3840, 2160).skipped == ()
    assert [(r.video_bitrate, r.audio_bitrate) for r in LADDER] == [
        (15_000_000, 192_000),
        (8_000_000, 192_000),
        (5_000_000, 128_000),
        (2_500_000, 128_000),
        (1_000_000, 96_000),
        (600_000, 96_000),
    ]


@given(width=st.integers(1, 9000), height=st.integers(1, 9000))
def test_no_rung_is_larger_than_the_source_nor_of_another_shape(width: int, height: int) -> None:
    for size in rungs_for(width, height).sizes:
        assert size.width % 2 == size.height % 2 == 0
        assert size.width <= max(2, width + 1)
        assert size.height <= max(2, height + 1)
        if min(width, height) > 360:
            assert abs(size.width / size.height - width / height) / (width / height) < 0.01


# Frame rates


@pytest.mark.parametrize(
    ("rate", "published"),
    [
        (Fraction(25), Fraction(25)),
        (NTSC, NTSC),
        (Fraction(60), Fraction(60)),
        (Fraction(100), Fraction(50)),
        (Fraction(120), Fraction(60)),
        (Fraction(120000, 1001), Fraction(60000, 1001)),
        (Fraction(144), Fraction(48)),
        (Fraction(240), Fraction(60)),
        (Fraction(15), Fraction(15)),
        (Fraction(1), Fraction(10)),
        (Fraction(6), Fraction(12)),
    ],
)
def test_the_published_rate_is_at_most_sixty_and_divides_the_sources(
    rate: Fraction, published: Fraction
) -> None:
    assert rates.publish_at(rate) == published


def test_a_variable_rate_becomes_the_nearest_standard_one() -> None:
    assert rates.publish_at(Fraction(294, 10), variable=True) == NTSC
    assert rates.publish_at(Fraction(59), variable=True) == Fraction(60000, 1001)
    assert rates.publish_at(Fraction(17), variable=True) == 17


def test_rates_are_measured_through_the_rounding_of_milliseconds() -> None:
    for rate in (Fraction(24000, 1001), Fraction(24), Fraction(25), NTSC, Fraction(30), Fraction(60)):
        times = [round(1000 * n / rate) for n in range(500)]
        measured = rates.measure(times, Fraction(1, 1000), [rate])
        assert measured.usual == rate
        assert not measured.variable
        assert rates.measure(times, Fraction(1, 1000), []).usual == rate


def test_pauses_make_a_rate_variable() -> None:
    times = [n * 40 for n in range(100) if n % 7]
    measured = rates.measure(times, Fraction(1, 1000), [])
    assert measured.variable
    assert measured.usual == 25


# The plan


def test_chunks_and_segments_cover_every_frame_once() -> None:
    made = plan(source(rate=NTSC, duration=Fraction(100)))
    assert made.segment_frames == 180
    frames = [frame for chunk in made.chunks() for frame in range(chunk.first_frame, chunk.end_frame)]
    assert frames == list(range(made.total_frames))
    segments = [segment for chunk in made.chunks() for segment in chunk.segments]
    assert segments == list(range(1, made.total_segments + 1))
    assert sum(made.segment_length(s) for s in segments) == made.total_frames


@settings(deadline=None)
@given(
    rate=st.sampled_from([*rates.STANDARD, Fraction(15), Fraction(37, 2)]),
    duration=st.fractions(Fraction(1, 25), 500),
    segment=st.integers(1, 10),
    per_chunk=st.integers(1, 6),
)
def test_sound_follows_the_pictures_grid(
    rate: Fraction, duration: Fraction, segment: int, per_chunk: int
) -> None:
    made = plan(
        source(rate=rate, duration=duration), segment_seconds=Fraction(segment), segments_per_chunk=per_chunk
    )
    frames = [frame for n in range(1, made.total_segments + 1) for frame in made.audio_segment(n)]
    assert frames == list(range(made.audio_frames))
    for number in range(1, made.audio_segments + 1):
        border = (number - 1) * made.segment_frames / made.frame_rate
        assert abs(Fraction(made.audio_segment(number).start * AAC_FRAME, SAMPLE_RATE) - border) <= Fraction(
            1, 90
        )
    length = Fraction(made.audio_frames * AAC_FRAME, SAMPLE_RATE)
    assert abs(length - made.duration) <= Fraction(AAC_FRAME, SAMPLE_RATE)
    assert made.timescale * made.frame_rate.denominator == made.frame_rate.numerator * made.frame_ticks
    assert len(made.seeks) == made.total_chunks


def test_a_plan_survives_json_and_its_digest_tells_plans_apart() -> None:
    made = plan(source(rate=NTSC, sounds=(Fraction(0), Fraction(1, 3))))
    again = EncodePlan.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    assert again.digest() == made.digest()
    assert replace(made, preset="slow").digest() != made.digest()
    with pytest.raises(ValueError, match="99"):
        EncodePlan.from_json({**made.to_json(), "version": 99})


def test_a_shortened_plan_keeps_the_chunks_before_the_cut() -> None:
    made = plan(source())
    shorter = made.shortened(1000)
    assert shorter.chunk(1) == made.chunk(1)
    assert shorter.total_frames == 1000
    assert shorter.chunk(2).end_frame == 1000
    assert made.shortened(made.total_frames) == made
    for frames in (0, made.total_frames + 1):
        with pytest.raises(ValueError, match=f"{frames}"):
            made.shortened(frames)


def test_decoding_starts_before_the_chunk_and_at_a_keyframe_where_the_container_cannot_tell() -> None:
    indexed = plan(source(start=Fraction(10), sounds=()))
    assert indexed.seeks[:2] == (None, 10 + 30 - 1.0)
    stream = plan(
        source(container="mpegts", start=Fraction(10), keyframes=(10.0, 30.0, 38.5, 39.5, 60.0), sounds=())
    )
    assert stream.seeks[:2] == (None, 38.0)
    nothing = plan(source(container="mpegts", keyframes=(0.0,)))
    assert set(nothing.seeks) == {None}


def test_sound_well_before_the_first_picture_moves_the_start() -> None:
    assert plan(source(start=Fraction(3), sounds=(Fraction(0),))).origin == 0
    assert plan(source(start=Fraction(1, 10), sounds=(Fraction(0),))).origin == Fraction(1, 10)
    assert plan(source(start=Fraction(500), sounds=(Fraction(0),))).origin == 500
    assert plan(source(start=Fraction(3), sounds=())).origin == 3


def test_one_sound_track_is_the_default_and_five_channels_become_two() -> None:
    made = plan(source(sounds=(Fraction(0), Fraction(0))))
    assert [track.default for track in made.audio] == [True, False]
    assert made.audio[0].channels == 2
    assert made.audio[0].bitrates == (128_000, 96_000)
    assert made.audio[1].folder(96_000) == "audio_2_96k"


@pytest.mark.parametrize(
    ("size", "rate", "maxrate", "level"),
    [
        ((640, 360), 30, 750_000, "3.0"),
        ((1280, 720), 30, 3_125_000, "3.1"),
        ((1280, 720), 60, 3_125_000, "3.2"),
        ((1920, 1080), 30, 6_250_000, "4.0"),
        ((1920, 1080), 60, 6_250_000, "4.2"),
        ((3840, 2160), 30, 18_750_000, "5.1"),
        ((3840, 2160), 60, 18_750_000, "5.2"),
        ((176, 144), 15, 100_000, "1.2"),
    ],
)
def test_levels(size: tuple[int, int], rate: int, maxrate: int, level: str) -> None:
    assert level_for(*size, Fraction(rate), maxrate) == level


def test_a_segment_or_chunk_that_is_not_there() -> None:
    made = plan(source())
    for number in (0, 99):
        with pytest.raises(ValueError, match=f"{number}"):
            made.chunk(number)
        with pytest.raises(ValueError, match=f"{number}"):
            made.segment_length(number)


def test_media_is_plain_python() -> None:
    """No module of videos.media imports Django."""
    names = [path.stem for path in Path(media.__file__ or "").parent.glob("*.py")]
    imports = "".join(f"import videos.media.{name};" for name in names if name != "__init__")
    code = f"import sys; {imports} sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
