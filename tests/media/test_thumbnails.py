"""Poster and storyboard, from what is already encoded."""

import re
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.support.videos.codes import coded
from tests.support.videos.media_clips import make_clip, sample_clip, transcode
from videos.media import contained, thumbnails
from videos.media.exceptions import FfmpegStopped, MediaError
from videos.media.plan import EncodePlan


def picture(path: Path) -> "np.ndarray[Any, Any]":
    with av.open(str(path), mode="r") as container:
        return next(container.decode(video=0)).to_ndarray(format="gray")


def test_a_poster_and_a_storyboard_of_real_footage(tmp_path: Path) -> None:
    plan = transcode(sample_clip("bikes.mp4"), tmp_path, segment=1, per_chunk=10)
    made = thumbnails.make(plan, tmp_path)
    assert (tmp_path / made.poster.name).read_bytes().startswith(b"\xff\xd8")
    assert picture(tmp_path / "poster.jpg").shape == (180, 424)
    assert picture(tmp_path / "storyboard_001.jpg").shape == (68, 1600)
    cues = re.findall(
        r"(\S+) --> (\S+)\n(\S+)#xywh=(\d+),(\d+),160,68", (tmp_path / "storyboard.vtt").read_text()
    )
    assert len(cues) == plan.total_segments == 10
    assert cues[3] == ("00:00:03.000", "00:00:04.000", "storyboard_001.jpg", "480", "0")
    assert cues[-1][1] == "00:00:10.000"


def test_each_tile_shows_the_start_of_its_segment(tmp_path: Path) -> None:
    plan = transcode(
        make_clip(tmp_path / "clip.mp4", frames=300, sounds=()), tmp_path / "out", segment=1, per_chunk=12
    )
    thumbnails.make(plan, tmp_path / "out")
    sheet = picture(tmp_path / "out" / "storyboard_001.jpg")
    assert sheet.shape == (180, 1600)
    for number in range(12):
        x, y = number % 10 * 160, number // 10 * 90
        tile = sheet[y : y + 90, x : x + 160]
        bars = [
            tile[10:35, int((bit + 0.3) * 160 / 12) : int((bit + 0.7) * 160 / 12)].mean() > 128
            for bit in range(12)
        ]
        assert sum(1 << bit for bit, lit in enumerate(bars) if lit) == number * 25


def test_a_black_opening_is_not_the_poster(tmp_path: Path) -> None:
    source = tmp_path / "black.mp4"
    make_clip(
        source,
        frames=75,
        sounds=(),
        video=("-vf", "drawbox=t=fill:c=black:enable='lt(n,40)'", "-c:v", "libx264"),
    )
    for segment in (1, 6):
        out = tmp_path / str(segment)
        thumbnails.make(transcode(source, out, segment=segment), out)
        assert picture(out / "poster.jpg").std() > 20


def test_one_picture_is_enough(tmp_path: Path) -> None:
    plan = transcode(make_clip(tmp_path / "one.mp4", frames=1, sounds=()), tmp_path / "out")
    made = thumbnails.make(plan, tmp_path / "out")
    assert len(made.sheets) == 1


def test_it_stops_when_asked(tmp_path: Path) -> None:
    plan = transcode(make_clip(tmp_path / "clip.mp4", frames=50, sounds=()), tmp_path / "out")
    with pytest.raises(FfmpegStopped):
        thumbnails.make(plan, tmp_path / "out", stop=lambda: True)


# -- segments that another machine has made ----------------------------------------------------------------------------


@pytest.fixture
def plan(tmp_path: Path) -> EncodePlan:
    return transcode(make_clip(tmp_path / "clip.mp4", frames=50, sounds=()), tmp_path / "out")


def test_what_cannot_be_decoded_is_said_and_leaves_nothing(plan: EncodePlan, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for segment in (out / plan.renditions[-1].name).glob("*.m4s"):
        segment.write_bytes(b"\0" * 100)
    before = {path.name for path in out.iterdir()}
    with pytest.raises(MediaError, check=coded("undecodable")):
        thumbnails.make(plan, out)
    assert {path.name for path in out.iterdir()} == before


def test_what_breaks_the_process_that_draws_breaks_nothing_else(
    plan: EncodePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thumbnails, "MEMORY", 100 << 20)
    with pytest.raises(MediaError, check=coded("drawing_failed")):
        thumbnails.make(plan, tmp_path / "out")
    assert not (tmp_path / "out" / "poster.jpg").exists()


def test_the_process_that_draws_can_open_nothing_else_and_write_nothing_there_is(
    plan: EncodePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, segment = tmp_path / "secret", next((tmp_path / "out").rglob("*.m4s"))
    secret.write_text("secret")
    for attempt in (f"open({str(secret)!r})", f"open({str(segment)!r}, 'r+')", "open('/etc/passwd')"):
        monkeypatch.setattr(contained, "CHILD", attempt)
        with pytest.raises(MediaError, match="PermissionError"):
            thumbnails.make(plan, tmp_path / "out")


def test_a_file_that_is_no_picture_is_not_taken(
    plan: EncodePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead = "import sys; open(sys.argv[-1] + '/poster.jpg', 'w').write('<script>'); print('null')"
    monkeypatch.setattr(contained, "CHILD", instead)
    with pytest.raises(MediaError, match=r"poster\.jpg", check=coded("bad_picture")):
        thumbnails.make(plan, tmp_path / "out")
    assert not (tmp_path / "out" / "poster.jpg").exists()
