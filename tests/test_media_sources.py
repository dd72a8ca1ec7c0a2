"""Every kind of source that must work: published frame by frame as planned, sound with the picture."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests import conformance
from tests.media_clips import (
    LIMITS,
    binary,
    encode_all,
    make_clip,
    plan_for,
    read_number,
    run_ffmpeg,
    sample_clip,
    transcode,
)
from videos.media import encode, finish, verify
from videos.media.ladder import LADDER
from videos.media.plan import EncodePlan
from videos.media.probe import probe

X264 = ("-c:v", "libx264", "-preset", "ultrafast")


def numbers_shown(folder: Path, plan: EncodePlan, *, quality: int = 0) -> list[int]:
    """The numbers of the source's pictures, as published."""
    name = plan.renditions[quality].name
    data = (folder / name / "init.mp4").read_bytes()
    data += b"".join(path.read_bytes() for path in sorted((folder / name).glob("seg_*.m4s")))
    path = folder / f"{name}.whole.mp4"
    path.write_bytes(data)
    with av.open(str(path)) as container:
        return [read_number(conformance.luma(frame)) for frame in container.decode(video=0)]


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


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_rotated_video_is_published_upright(tmp_path: Path, degrees: int) -> None:
    plain = make_clip(tmp_path / "plain.mp4", frames=50)
    source = tmp_path / "rotated.mp4"
    run_ffmpeg("-display_rotation", str(degrees), "-i", plain, "-c", "copy", source)
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan)
    upright = (320, 180) if degrees == 180 else (180, 320)
    assert (plan.renditions[0].width, plan.renditions[0].height) == upright
    with av.open(str(tmp_path / "out" / plan.renditions[0].name / "init.mp4")) as init:
        assert "rotate" not in init.streams.video[0].metadata
    # The bars are where turning the picture puts them.
    turned = tmp_path / "turned.png"
    run_ffmpeg("-i", source, "-frames:v", "1", turned)
    with av.open(str(turned)) as picture:
        wanted = next(picture.decode(video=0)).reformat(format="gray").to_ndarray()
    folder = tmp_path / "out" / plan.renditions[0].name
    whole = tmp_path / "first.mp4"
    whole.write_bytes((folder / "init.mp4").read_bytes() + (folder / "seg_00001.m4s").read_bytes())
    with av.open(str(whole)) as published:
        first = conformance.luma(next(published.decode(video=0)))
    assert np.corrcoef(first.ravel(), wanted.ravel())[0, 1] > 0.95


@pytest.mark.parametrize("size", [(321, 181), (199, 151), (181, 322)])
def test_odd_sizes_become_even(tmp_path: Path, size: tuple[int, int]) -> None:
    source = make_clip(
        tmp_path / "odd.mkv", frames=30, size=size, video=("-c:v", "ffv1", "-pix_fmt", "yuv444p"), sounds=()
    )
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan)
    assert all(r.width % 2 == r.height % 2 == 0 for r in plan.renditions)


def test_a_tiny_video_gets_one_quality_of_its_own_size(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "tiny.mp4", frames=30, size=(200, 150), sounds=())
    plan = transcode(source, tmp_path / "out", rungs=LADDER)
    conformance.check(tmp_path / "out", plan)
    assert [(r.name, r.width, r.height) for r in plan.renditions] == [("150p", 200, 150)]
    assert plan.skipped == ("2160p", "1440p", "1080p", "720p", "480p", "360p")


def test_ten_bits_become_eight(tmp_path: Path) -> None:
    source = make_clip(
        tmp_path / "ten.mkv",
        frames=30,
        video=("-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le"),
    )
    assert probe(source).video.bit_depth == 10
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan)
    assert numbers_shown(tmp_path / "out", plan) == list(range(30))


def test_hdr_is_tone_mapped(tmp_path: Path) -> None:
    source = make_clip(
        tmp_path / "hdr.mkv",
        frames=15,
        sounds=(),
        video=(
            *("-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le"),
            *("-color_primaries", "bt2020", "-color_trc", "smpte2084", "-colorspace", "bt2020nc"),
        ),
    )
    assert probe(source).video.hdr_transfer == "smpte2084"
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan)
    assert numbers_shown(tmp_path / "out", plan) == list(range(15))


def test_an_interlaced_video_is_deinterlaced(tmp_path: Path) -> None:
    source = make_clip(
        tmp_path / "interlaced.ts",
        frames=60,
        size=(320, 192),
        video=("-c:v", "mpeg2video", "-b:v", "6M", "-flags", "+ildct+ilme", "-top", "1", "-g", "15"),
        audio=("-c:a", "mp2"),
    )
    info = probe(source)
    assert info.video.interlaced
    plan = transcode(source, tmp_path / "out", per_chunk=1)
    assert plan.deinterlace
    conformance.check(tmp_path / "out", plan, sync=True)
    assert plan.total_frames == 60


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


@pytest.mark.parametrize(
    ("rate", "published"), [(50, 50), (60, 60), (Fraction(60000, 1001), None), (120, 60), (15, 15)]
)
def test_frame_rates_are_kept_up_to_sixty(tmp_path: Path, rate: Fraction, published: int | None) -> None:
    source = make_clip(tmp_path / "fast.mp4", frames=int(rate * 2), rate=rate)
    plan = transcode(source, tmp_path / "out", per_chunk=1)
    conformance.check(tmp_path / "out", plan, sync=True)
    assert plan.frame_rate == (published or rate)


def test_a_picture_that_changes_its_size_midway(tmp_path: Path) -> None:
    parts = []
    for number, size in enumerate(((320, 180), (640, 360))):
        video = (*X264, "-bsf:v", "h264_mp4toannexb")
        clip = make_clip(tmp_path / f"{number}.mp4", frames=60, size=size, sounds=(), video=video)
        part = tmp_path / f"{number}.ts"
        run_ffmpeg("-i", clip, "-c", "copy", "-output_ts_offset", str(number * 2.4), "-muxdelay", "0", part)
        parts.append(part.read_bytes())
    source = tmp_path / "changing.ts"
    source.write_bytes(b"".join(parts))
    plan = transcode(source, tmp_path / "out", per_chunk=5)
    conformance.check(tmp_path / "out", plan)
    assert (plan.renditions[0].width, plan.renditions[0].height) == (320, 180)
    assert numbers_shown(tmp_path / "out", plan) == [*range(60), *range(60)]


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


def test_anamorphic_pictures_get_square_pixels(tmp_path: Path) -> None:
    source = make_clip(
        tmp_path / "wide.mp4", frames=30, size=(360, 288), video=("-vf", "setsar=16/11", *X264)
    )
    info = probe(source)
    assert (info.video.width, info.video.height) == (524, 288)
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan)
    assert (plan.renditions[0].width, plan.renditions[0].height) == (328, 180)


def test_cover_art_is_not_the_video(tmp_path: Path) -> None:
    plain = make_clip(tmp_path / "plain.mp4", frames=30)
    cover = tmp_path / "cover.png"
    run_ffmpeg("-f", "lavfi", "-i", "color=red:s=1000x1000", "-frames:v", "1", cover)
    source = tmp_path / "cover.mp4"
    run_ffmpeg(
        *(
            "-i",
            cover,
            "-i",
            plain,
            "-map",
            "0",
            "-map",
            "1",
            "-c",
            "copy",
            "-disposition:v:0",
            "attached_pic",
            source,
        )
    )
    plan = transcode(source, tmp_path / "out")
    conformance.check(tmp_path / "out", plan, sync=True)
    assert plan.renditions[0].width == 320


@pytest.mark.parametrize("name", ["cut.mkv", "cut.ts", "cut.mp4"])
def test_of_a_file_that_is_cut_short_what_decodes_is_published(tmp_path: Path, name: str) -> None:
    whole = make_clip(tmp_path / f"whole-{name}", frames=150, output=("-movflags", "+faststart"))
    source = tmp_path / name
    data = whole.read_bytes()
    source.write_bytes(data[: len(data) * 6 // 10])
    info = probe(source)
    if name != "cut.ts":  # a transport stream does not say how long it should be
        assert any("cut short" in warning for warning in info.warnings)
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
    conformance.check(tmp_path / "out", plan)


def test_the_default_preset_and_ladder_meet_too(tmp_path: Path) -> None:
    """veryfast looks ahead and places B-frames as it likes."""
    source = sample_clip("bikes.mp4")
    plan = transcode(source, tmp_path / "out", segment=3, per_chunk=1, preset="veryfast")
    conformance.check(tmp_path / "out", plan)
