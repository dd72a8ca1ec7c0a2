"""Every kind of picture that must work: turned, odd, tiny, deep, interlaced, of changing size."""

from pathlib import Path

import av
import numpy as np
import pytest

from tests.support.videos import conformance
from tests.support.videos.conformance import numbers_shown
from tests.support.videos.media_clips import (
    X264,
    make_clip,
    run_ffmpeg,
    transcode,
)
from videos.media.ladder import LADDER
from videos.media.probe import probe


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
