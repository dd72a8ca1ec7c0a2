"""JPEG files that another machine has made: whether one is a plain picture of a given size, and nothing besides.

Looks at the markers and decodes nothing: what is in the picture is for browsers, which are used to the worst.
"""

from pathlib import Path

_START, _END = b"\xff\xd8", b"\xff\xd9"
_APP0, _COMMENT, _TABLES, _HUFFMAN, _RESTART, _FRAME, _SCAN = 0xE0, 0xFE, 0xDB, 0xC4, 0xDD, 0xC0, 0xDA
_HARMLESS = frozenset((_APP0, _COMMENT, _TABLES, _HUFFMAN, _RESTART))
"""No other: profiles, thumbnails and places where a picture was taken have no business here."""
_IN_A_SCAN = frozenset((0x00, *range(0xD0, 0xD8)))


class NotAJpeg(ValueError):
    """The file is not what its name says; the text says why."""


def check(path: Path, *, width: int, height: int) -> None:
    """A baseline JPEG of this size, in colour, whole, with nothing behind its end. Raises NotAJpeg."""
    data = path.read_bytes()
    if not data.startswith(_START):
        raise NotAJpeg("it does not begin as one")
    at, size, tables = 2, None, set()
    while True:
        marker, body, at = _segment(data, at)
        if marker == _FRAME:
            if size is not None:
                raise NotAJpeg("it has several frames")
            size = _size(body)
        elif marker == _SCAN:
            break
        elif marker not in _HARMLESS:
            raise NotAJpeg(f"it has a part of kind {marker:02x}")
        tables.add(marker)
    if size is None or not {_TABLES, _HUFFMAN} <= tables:
        raise NotAJpeg("it lacks what its picture needs")
    if size != (width, height):
        raise NotAJpeg(f"it is {size[0]}×{size[1]}, not {width}×{height}")
    _check_scan(data, at)


def _segment(data: bytes, at: int) -> tuple[int, bytes, int]:
    """The kind and content of the part that begins here, and where it ends."""
    if len(data) < at + 4 or data[at] != 0xFF:
        raise NotAJpeg("it breaks off, or is none")
    end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    if end < at + 4 or end > len(data):
        raise NotAJpeg("one of its parts has an impossible length")
    return data[at + 1], data[at + 4 : end], end


def _size(body: bytes) -> tuple[int, int]:
    if len(body) < 6 or body[0] != 8 or body[5] != 3 or len(body) != 6 + 3 * body[5]:
        raise NotAJpeg("it is not a picture of three colours with eight bits each")
    return int.from_bytes(body[3:5], "big"), int.from_bytes(body[1:3], "big")


def _check_scan(data: bytes, at: int) -> None:
    """One scan, up to the end of the file."""
    begin = at
    while (at := data.find(b"\xff", at)) >= 0 and at + 1 < len(data) and data[at + 1] in _IN_A_SCAN:
        at += 2
    if at < 0 or data[at:] != _END:
        raise NotAJpeg("it has no end, or something comes after it")
    if at == begin:
        raise NotAJpeg("it has no picture in it")
