"""Every kind of source, from upload to ready, checked frame by frame (tests/media looks more closely)."""

import io
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import pytest

from jobs.testing import run_due_jobs
from tests.support.videos import conformance
from tests.support.videos.codes import error_types
from tests.support.videos.media_clips import make_clip, run_ffmpeg, sample_clip
from tests.support.videos.video_site import accept, check_published, clip, current, only_transcode
from videos import storage
from videos.media import encode
from videos.models import VideoStatus
from videos.publishing import BREAKS_OFF

pytestmark = pytest.mark.django_db

X264 = ("-c:v", "libx264", "-preset", "ultrafast")


def _copied(path: Path, *arguments: str | Path) -> Path:
    run_ffmpeg(*arguments, path)
    return path


def _cut(path: Path) -> Path:
    whole = make_clip(path.with_name("whole.mkv"), frames=150)
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size * 6 // 10])
    return path


def _with_cover(path: Path) -> Path:
    cover = _copied(path.with_name("cover.jpg"), "-i", clip(50), "-frames:v", "1")
    inputs = ("-i", clip(50), "-i", cover, "-map", "0", "-map", "1", "-c", "copy")
    return _copied(path, *inputs, "-disposition:v:1", "attached_pic")


def _variable(path: Path) -> Path:
    chosen = "select='lt(n,30)+gt(n,60)*mod(n,3)'"
    return _copied(path, "-i", clip(100), "-vf", chosen, "-fps_mode", "vfr", *X264, "-c:a", "aac")


KINDS: dict[str, Callable[[Path], Path]] = {
    "no sound": lambda folder: make_clip(folder / "a.mp4", frames=60, sounds=()),
    "several sound tracks": lambda folder: make_clip(folder / "a.mkv", frames=60, sounds=(1000, 500)),
    "variable frame rate": lambda folder: _variable(folder / "a.mkv"),
    "rotated": lambda folder: _copied(
        folder / "a.mp4", "-display_rotation", "90", "-i", clip(50), "-c", "copy"
    ),
    "odd size": lambda folder: _copied(
        folder / "a.mkv", "-i", clip(50), "-vf", "scale=321:181", "-pix_fmt", "yuv444p", *X264, "-c:a", "copy"
    ),
    "ten bits": lambda folder: _copied(
        folder / "a.mp4", "-i", clip(50), *X264, "-pix_fmt", "yuv420p10le", "-c:a", "copy"
    ),
    "interlaced": lambda folder: _copied(
        folder / "a.mp4",
        "-i",
        clip(50),
        *X264,
        "-flags",
        "+ilme+ildct",
        "-x264-params",
        "tff=1",
        "-c:a",
        "copy",
    ),
    "start time": lambda folder: _copied(
        folder / "a.ts", "-i", clip(50), "-c", "copy", "-output_ts_offset", "1000"
    ),
    "fifty pictures a second": lambda folder: make_clip(folder / "a.mp4", frames=100, rate=50),
    "sixty pictures a second": lambda folder: make_clip(folder / "a.mp4", frames=120, rate=60),
    "one second": lambda folder: make_clip(folder / "a.mp4", frames=25),
    "anamorphic": lambda folder: _copied(
        folder / "a.mp4", "-i", clip(50), "-vf", "setsar=4/3", *X264, "-c:a", "copy"
    ),
    "cover art": lambda folder: _with_cover(folder / "a.mp4"),
    "cut short": lambda folder: _cut(folder / "a.mkv"),
    "tiny": lambda folder: make_clip(folder / "a.mp4", frames=50, size=(200, 150)),
    "real footage": lambda folder: sample_clip("carphone_pristine.mp4"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_becomes_ready(videos_root: Path, tmp_path: Path, kind: str) -> None:
    video = accept(KINDS[kind](tmp_path), title=kind)
    run_due_jobs()
    check_published(video, sync=False)
    assert bool(video.warning) == (kind == "cut short")
    if kind == "rotated":
        assert (video.width, video.height) == (360, 640)
    if kind == "tiny":
        assert [r.name for r in current(video).renditions.filter(kind="video")] == ["150p"]


def _first_picture(folder: Path) -> Any:
    """Of a rendition, as a player decodes it."""
    data = (folder / "init.mp4").read_bytes() + (folder / "seg_00001.m4s").read_bytes()
    with av.open(io.BytesIO(data), "r", format="mov") as container:
        return next(container.decode(video=0))


@pytest.mark.parametrize("transfer", ["smpte2084", "arib-std-b67"])
def test_high_dynamic_range_is_published_for_ordinary_screens(
    videos_root: Path, tmp_path: Path, transfer: str
) -> None:
    """The clip's dark grey is stored as 50. In PQ that stands for less light than it would on an ordinary screen."""
    hdr = ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none")
    colours = ("-color_primaries", "bt2020", "-color_trc", transfer, "-colorspace", "bt2020nc")
    source = make_clip(
        tmp_path / "hdr.mkv", frames=60, size=(640, 480), video=(*hdr, "-pix_fmt", "yuv420p10le", *colours)
    )
    assert int(_first_picture_of(source).color_trc) in (16, 18)
    video = accept(source)
    run_due_jobs()
    check_published(video)
    published = current(video)
    assert [r.name for r in published.renditions.filter(kind="video")] == ["480p", "360p"]
    for quality in ("480p", "360p"):
        picture = _first_picture(storage.generation(published) / quality)
        assert picture.format.name == "yuv420p"
        colours_shown = (int(picture.color_primaries), int(picture.color_trc), int(picture.colorspace))
        assert colours_shown == (1, 1, 1), "BT.709"
        dark = conformance.luma(picture)[: picture.height // 3].mean()
        assert (30 < dark < 45) if transfer == "smpte2084" else (45 < dark < 57)


def _first_picture_of(source: Path) -> Any:
    with av.open(str(source)) as container:
        return next(container.decode(video=0))


def test_a_source_that_breaks_off_is_published_as_far_as_it_goes(videos_root: Path, tmp_path: Path) -> None:
    video = accept(make_clip(tmp_path / "long.mp4", frames=150))
    run_due_jobs(limit=1)
    short = make_clip(tmp_path / "short.mp4", frames=60).read_bytes()
    filling = video.source_bytes - len(short)
    storage.source(video).write_bytes(short + struct.pack(">I4s", filling, b"free") + bytes(filling - 8))
    run_due_jobs()
    check_published(video)
    video.refresh_from_db()
    assert video.warning == BREAKS_OFF
    assert video.duration == pytest.approx(60 / 25)
    assert only_transcode(video).frames_found == 60


def test_a_hole_in_the_source_is_filled(videos_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, held = encode.encode_chunk, []

    def with_a_hole(plan: Any, number: int, *, hold: bool = False, **arguments: Any) -> Any:
        made = real(plan, number, hold=hold, **arguments)
        if hold:
            held.append(number)
        return replace(made, frames=made.frames - 10) if number == 1 and not hold else made

    monkeypatch.setattr(encode, "encode_chunk", with_a_hole)
    video = accept(clip(100))
    run_due_jobs()
    assert held == [1]
    check_published(video)


def test_a_source_of_which_nothing_decodes_fails_clearly(
    videos_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = encode.Encoded(frames=0, files=())
    monkeypatch.setattr(encode, "encode_chunk", lambda *args, **kwargs: nothing)
    video = accept(clip(50))
    run_due_jobs(raise_errors=False)
    video.refresh_from_db()
    assert video.status == VideoStatus.FAILED
    assert (error_types(), bool(video.error_message)) == ({"NothingDecoded"}, True)
