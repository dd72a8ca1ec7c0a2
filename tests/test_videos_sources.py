"""Every kind of source, from upload to ready, checked frame by frame (test_media_sources.py looks more closely)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.testing import run_due_jobs
from tests.media_clips import make_clip, run_ffmpeg, sample_clip
from tests.video_site import accept, check_published, clip, current, only_transcode
from videos import storage
from videos.media import encode
from videos.models import VideoStatus

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
    if kind == "cut short":
        assert "cut short" in video.warning or "damaged" in video.warning
    if kind == "rotated":
        assert (video.width, video.height) == (360, 640)
    if kind == "tiny":
        assert [r.name for r in current(video).renditions.filter(kind="video")] == ["150p"]


def test_a_source_that_breaks_off_is_published_as_far_as_it_goes(videos_root: Path, tmp_path: Path) -> None:
    video = accept(make_clip(tmp_path / "long.mp4", frames=150))
    run_due_jobs(limit=1)
    storage.source(video).write_bytes(make_clip(tmp_path / "short.mp4", frames=60).read_bytes())
    run_due_jobs()
    check_published(video)
    video.refresh_from_db()
    assert "breaks off" in video.warning
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
    assert "Not one picture" in video.error_message
