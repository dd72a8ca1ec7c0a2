"""Pictures from other machines: a plain JPEG of the right size, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import pytest

from videos.media import jpeg, thumbnails

COMMENT = b"\xff\xfe\x00\x07hello"


@pytest.fixture(scope="module")
def picture() -> bytes:
    frame = av.VideoFrame(160, 90, "yuv420p")
    for plane in frame.planes:
        plane.update(bytes(range(256)) * (plane.buffer_size // 256) + bytes(plane.buffer_size % 256))
    frame.pts, frame.time_base = 0, Fraction(1, 25)
    return thumbnails._jpeg(frame, quality=3)


def refused(content: bytes, folder: Path) -> str:
    path = folder / "poster.jpg"
    path.write_bytes(content)
    with pytest.raises(jpeg.NotAJpeg) as refusal:
        jpeg.check(path, width=160, height=90)
    return str(refusal.value)


def test_a_picture_of_ours_is_one(picture: bytes, tmp_path: Path) -> None:
    path = tmp_path / "poster.jpg"
    for content in (picture, picture[:2] + COMMENT + picture[2:]):
        path.write_bytes(content)
        jpeg.check(path, width=160, height=90)


@pytest.mark.parametrize(("width", "height"), [(90, 160), (160, 91), (0, 0)])
def test_a_picture_of_another_size_is_refused(
    picture: bytes, tmp_path: Path, width: int, height: int
) -> None:
    path = tmp_path / "poster.jpg"
    path.write_bytes(picture)
    with pytest.raises(jpeg.NotAJpeg, match="160×90"):
        jpeg.check(path, width=width, height=height)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"<html><script>alert(1)</script>",
        lambda data: b"GIF89a" + data,
        lambda data: b"\x89PNG\r\n\x1a\n" + bytes(100),
        lambda data: data[:2],
        lambda data: data[:-2],
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data + b"<?php system($_GET[0]); ?>",
        lambda data: data + data,
        lambda data: data[:2] + b"\xff\xe1\x00\x08Exif\0\0" + data[2:],
        lambda data: data[:2] + b"\xff\xe2\x00\x08ICC_PR" + data[2:],
        lambda data: data[:2] + b"\xff\xfe\xff\xff" + data[2:],
        lambda data: data[:2] + b"\xff\xfe\x00\x01" + data[2:],
        lambda data: data[:2] + b"\xff\xd9",
        lambda data: data.replace(b"\xff\xc0", b"\xff\xc2", 1),
        lambda data: data.replace(b"\xff\xc4", b"\xff\xfe"),
        lambda data: data.replace(b"\xff\xdb", b"\xff\xfe"),
        lambda data: data[: data.index(b"\xff\xda")] + b"\xff\xd9",
        lambda data: bytes(len(data)),
    ],
)
def test_whatever_is_not_such_a_picture_is_refused(
    picture: bytes, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    assert refused(spoil(picture), tmp_path)


def test_every_cut_and_every_changed_header_byte_ends_in_a_verdict(picture: bytes, tmp_path: Path) -> None:
    """A plain yes or no, whatever the bytes are."""
    path = tmp_path / "poster.jpg"
    for at in range(picture.index(b"\xff\xda")):
        assert refused(picture[:at], tmp_path)
        for value in (0x00, 0xFF):
            path.write_bytes(picture[:at] + bytes([value]) + picture[at + 1 :])
            try:
                jpeg.check(path, width=160, height=90)
            except jpeg.NotAJpeg:
                continue
