"""What another machine says it has found in a source: every field has its bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.videos.video_site import clip
from videos.media import foreign_source, probe, serial
from videos.media.source import Limits, SourceInfo


@pytest.fixture(scope="module")
def info() -> SourceInfo:
    return probe.probe(clip(50, suffix="ts"))


@pytest.fixture
def told(info: SourceInfo) -> Any:
    return json.loads(json.dumps(serial.to_json(info)))


def read(told: Any, folder: Path, *, size: int | None = None) -> SourceInfo:
    path = folder / "source.json"
    path.write_text(told if isinstance(told, str) else json.dumps(told))
    return foreign_source.read(path, limits=Limits(), size=size or clip(50, suffix="ts").stat().st_size)


def test_what_was_found_is_read_as_it_was(told: Any, info: SourceInfo, tmp_path: Path) -> None:
    assert info.video.keyframes
    assert info.audio
    assert read(told, tmp_path) == info == foreign_source.thinned(info)


def test_more_keyframes_than_are_taken_are_thinned_out(told: Any, tmp_path: Path) -> None:
    told["video"]["keyframes"] = [number / 10 for number in range(120_000)]
    with pytest.raises(foreign_source.NotASource, match="keyframes"):
        read(told, tmp_path)
    path = tmp_path / "thin.json"
    many = serial.from_json(SourceInfo, told)
    path.write_text(json.dumps(serial.to_json(foreign_source.thinned(many))))
    assert path.stat().st_size < foreign_source.MOST_BYTES
    thin = read(path.read_text(), tmp_path).video.keyframes
    assert len(thin) == 40_000
    assert set(thin) <= set(many.video.keyframes)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "1", "[" * 100_000, '{"a":' * 5_000, "\x00"])
def test_what_is_no_description_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(foreign_source.NotASource):
        read(text, tmp_path)


PICTURE: list[tuple[str, list[Any]]] = [
    ("index", [-1, 64, 2**60, "0", None, True, 0.5]),
    ("codec", ["", "magicyuv", "h264,rawvideo", "h264\n", 5, None]),
    ("width", [0, -640, 16385, 10**12, "640", None, 640.0, True]),
    ("height", [0, 16385, "1"]),
    ("coded_width", [0, 2**40]),
    (
        "sample_aspect_ratio",
        ["0/1", "1/0", "1/11", "11/1", "1e999999999", "1", 1, "9" * 19 + "/1", " 1/1", None],
    ),
    ("rotation", [45, 360, -90, "90"]),
    ("pix_fmt", ["", "yuv420p,format=rgb24", "a b", "[out]", "x" * 51, None]),
    ("bit_depth", [0, 33]),
    ("hdr_transfer", ["smpte", "arib-std-b67;", None]),
    ("interlaced", [0, "no", None]),
    ("frame_rate", ["0/1", "1001/1", "-25/1", "nan", "25"]),
    ("average_rate", ["0/1", "1000001/1"]),
    ("time_base", ["0/1", "11/1", "-1/90000"]),
    ("start", ["1000000001/1", "-1000000001/1"]),
    ("end", ["-1/1", "0/1", "100000/1"]),
    ("frames", [0, -1, 2**53, "50"]),
    ("keyframes", [[2.0, 1.0], ["1"], [1e12], [None], 5, [[1.0]], {"0": 1}]),
]


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in PICTURE for value in values]
)
def test_a_picture_that_cannot_be_is_refused(told: Any, tmp_path: Path, field: str, value: Any) -> None:
    told["video"][field] = value
    with pytest.raises(foreign_source.NotASource):
        read(told, tmp_path)


SOUND: list[tuple[str, list[Any]]] = [
    ("index", [-1, 0, 64]),
    ("codec", ["", "evil", "aac,file"]),
    ("channels", [-1, 1025]),
    ("sample_rate", [0, 10**8]),
    ("language", ["../..", "a" * 36, "e n", 'en"', None]),
    ("title", ["x" * 101, "a\x00b", "line\nbreak", 7]),
    ("default", [1, "yes"]),
    ("start", ["1e5", "2000000000/1", "NaN"]),
]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in SOUND for value in values])
def test_a_sound_track_that_cannot_be_is_refused(told: Any, tmp_path: Path, field: str, value: Any) -> None:
    told["audio"][0][field] = value
    with pytest.raises(foreign_source.NotASource):
        read(told, tmp_path)


@pytest.mark.parametrize("codec", ["dvd_subtitle", "", "webvtt "])
def test_a_text_track_that_cannot_be_is_refused(told: Any, tmp_path: Path, codec: str) -> None:
    text = {"index": 9, "codec": "webvtt", "language": "en", "title": "", "default": False, "forced": False}
    told["subtitles"] = [text]
    assert read(told, tmp_path).subtitles[0].codec == "webvtt"
    told["subtitles"] = [{**text, "codec": codec}]
    with pytest.raises(foreign_source.NotASource):
        read(told, tmp_path)


def test_fields_that_are_missing_or_unknown_are_refused(told: Any, tmp_path: Path) -> None:
    for changed in ({**told, "more": 1}, {k: v for k, v in told.items() if k != "audio"}):
        with pytest.raises(foreign_source.NotASource):
            read(changed, tmp_path)
    told["video"].pop("rotation")
    with pytest.raises(foreign_source.NotASource):
        read(told, tmp_path)


def test_the_container_the_size_and_the_number_of_tracks_have_bounds(told: Any, tmp_path: Path) -> None:
    sound = told["audio"][0]
    for changed in (
        {**told, "container": "concat"},
        {**told, "container": "hls"},
        {**told, "size": told["size"] + 1},
        {**told, "audio": [{**sound, "index": 1 + n} for n in range(64)]},
        {**told, "audio": [sound, sound]},
        {**told, "warnings": ["x"] * 101},
        {**told, "warnings": "x"},
    ):
        with pytest.raises(foreign_source.NotASource):
            read(changed, tmp_path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(told: Any, tmp_path: Path, number: str) -> None:
    told["video"]["keyframes"] = ["HERE"]
    with pytest.raises(foreign_source.NotASource):
        read(json.dumps(told).replace('"HERE"', number), tmp_path)
