"""Every kind of file that must work: published frame by frame as planned, whatever its container and its groups."""

from pathlib import Path

import pytest

from tests.support.videos import conformance
from tests.support.videos.conformance import numbers_shown
from tests.support.videos.media_clips import (
    LIMITS,
    X264,
    binary,
    encode_all,
    make_clip,
    plan_for,
    sample_clip,
    transcode,
)
from videos.media import encode, finish, verify
from videos.media.probe import probe


def test_chunks_of_an_ordinary_file_meet_without_a_lost_or_repeated_picture(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "ordinary.mp4", frames=130)
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan, sync=True)
    assert plan.total_chunks == 3
    assert numbers_shown(tmp_path / "out", plan) == list(range(130))
    assert numbers_shown(tmp_path / "out", plan, quality=1) == list(range(130))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("long.mp4", (*X264, "-g", "1000", "-bf", "0")),
        (
            "open.mkv",
            ("-c:v", "libx264", "-g", "12", "-bf", "5", "-x264-params", "open-gop=1:b-pyramid=strict"),
        ),
        ("intra.mp4", (*X264, "-g", "1")),
        ("mpeg2.ts", ("-c:v", "mpeg2video", "-b:v", "4M", "-g", "15", "-bf", "2")),
        ("long.ts", (*X264, "-g", "90", "-bf", "3")),
        ("mpeg4.avi", ("-c:v", "mpeg4", "-b:v", "3M", "-g", "30", "-bf", "2")),
        (
            "vp9.webm",
            ("-c:v", "libvpx-vp9", "-b:v", "2M", "-deadline", "realtime", "-cpu-used", "8", "-g", "45"),
        ),
        ("flash.flv", (*X264, "-g", "50")),
        ("dvd.mpg", ("-c:v", "mpeg2video", "-b:v", "4M", "-g", "15", "-bf", "2", "-f", "vob")),
        ("theora.ogv", ("-c:v", "libtheora", "-q:v", "8", "-g", "40")),
        ("media.wmv", ("-c:v", "msmpeg4v3", "-b:v", "3M", "-g", "40")),
    ],
)
def test_any_group_length_and_container_is_cut_at_the_same_frames(
    tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    audio = {
        ".webm": ("-c:a", "libopus"),
        ".mpg": ("-c:a", "mp2"),
        ".ogv": ("-c:a", "libvorbis"),
        ".wmv": ("-c:a", "wmav2"),
        ".avi": ("-c:a", "libmp3lame"),
    }.get(Path(name).suffix, ("-c:a", "aac"))
    source = make_clip(tmp_path / name, frames=130, video=options, audio=audio)
    plan = transcode(source, tmp_path / "out", per_chunk=1)
    conformance.check(tmp_path / "out", plan, sync=True)
    shown = numbers_shown(tmp_path / "out", plan)
    start, end = shown[0], shown[-1]
    assert (start, end) == (0, 129) or name == "mpeg4.avi", (
        shown
    )  # AVI has no way to say when B-frames are shown
    assert sorted(set(shown)) == sorted(shown), "a picture is repeated"
    assert shown == list(range(start, start + plan.total_frames)), shown


def test_a_chunk_encoded_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "twice.mp4", frames=110)
    plan = plan_for(source)
    assert encode_all(plan, source, tmp_path / "one") == encode_all(plan, source, tmp_path / "two")


def test_one_second(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "second.mp4", frames=25)
    plan = transcode(source, tmp_path / "out", segment=6, per_chunk=5)
    conformance.check(tmp_path / "out", plan, sync=True)
    assert (plan.total_segments, plan.total_chunks) == (1, 1)


def test_a_single_picture_longer_than_a_segment(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "few.mp4", frames=26)
    plan = transcode(source, tmp_path / "out")  # 25 + 1 frames
    conformance.check(tmp_path / "out", plan)
    assert plan.segment_length(2) == 1


@pytest.mark.parametrize("name", ["cut.mkv", "cut.ts", "cut.mp4"])
def test_of_a_file_that_is_cut_short_what_decodes_is_published(tmp_path: Path, name: str) -> None:
    whole = make_clip(tmp_path / f"whole-{name}", frames=150, output=("-movflags", "+faststart"))
    source = tmp_path / name
    data = whole.read_bytes()
    source.write_bytes(data[: len(data) * 6 // 10])
    info = probe(source)
    if name != "cut.ts":  # a transport stream does not say how long it should be
        assert (len(info.warnings), probe(whole).warnings) == (1, ())
    plan = plan_for(source, per_chunk=1)
    done = [
        encode.encode_chunk(
            plan, chunk.number, source=source, into=tmp_path / "out", ffmpeg_binary=binary(), limits=LIMITS
        )
        for chunk in plan.chunks()
    ]
    plan = plan.shortened(sum(part.frames for part in done))
    encode.encode_audio(plan, 1, source=source, into=tmp_path / "out", ffmpeg_binary=binary(), limits=LIMITS)
    finish.write_playlists(plan, tmp_path / "out")
    verify.verify(plan, tmp_path / "out")
    conformance.check(tmp_path / "out", plan)
    assert 60 < plan.total_frames < 110


def test_a_chunk_that_the_source_does_not_reach_is_empty(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "short.mp4", frames=60)
    longer = plan_for(make_clip(tmp_path / "long.mp4", frames=150))
    results = [
        encode.encode_chunk(
            longer, n, source=source, into=tmp_path / "out", ffmpeg_binary=binary(), limits=LIMITS
        )
        for n in (1, 2, 3)
    ]
    assert [result.frames for result in results] == [50, 10, 0]
    assert results[2].files == ()


def test_a_hole_can_be_held(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "short.mp4", frames=60)
    longer = plan_for(make_clip(tmp_path / "long.mp4", frames=150))
    result = encode.encode_chunk(
        longer, 2, source=source, into=tmp_path / "out", ffmpeg_binary=binary(), limits=LIMITS, hold=True
    )
    assert result.frames == 50


@pytest.mark.parametrize("name", ["bigbuckbunny.mp4", "bikes.mp4", "carphone_pristine.mp4"])
def test_real_footage(tmp_path: Path, name: str) -> None:
    plan = transcode(sample_clip(name), tmp_path / "out", segment=2)
    assert list(conformance.find_problems(tmp_path / "out", plan, sync=False)) == []


def test_the_default_preset_and_ladder_meet_too(tmp_path: Path) -> None:
    """veryfast looks ahead and places B-frames as it likes."""
    source = sample_clip("bikes.mp4")
    plan = transcode(source, tmp_path / "out", segment=3, per_chunk=1, preset="veryfast")
    assert list(conformance.find_problems(tmp_path / "out", plan, sync=False)) == []
