"""Copy protection in MP4 files, which ffmpeg reads past without a word."""

import struct
from pathlib import Path

from videos.media.boxes import BadBoxes, boxes, find

MAX_HEADER = 256 << 20


def is_encrypted(path: Path) -> bool:
    """Whether an MP4's tracks are protected (`encv`, `enca`, or iTunes' old `drmi`, `drms`)."""
    header = _movie_header(path)
    if header is None:
        return False
    try:
        for trak in boxes(header):
            if trak.kind == b"trak":
                stsd = find(header, "mdia/minf/stbl/stsd", trak.body, trak.end)
                if stsd and any(
                    box.kind in (b"encv", b"enca", b"drmi", b"drms")
                    for box in boxes(header, stsd.body + 8, stsd.end)
                ):
                    return True
    except BadBoxes:
        return False  # the demuxer will say what is wrong with it
    return False


def _movie_header(path: Path) -> bytes | None:
    with path.open("rb") as file:
        end = path.stat().st_size
        at = 0
        while at + 8 <= end:
            file.seek(at)
            head = file.read(16)
            size, kind = struct.unpack_from(">I4s", head)
            header = 8
            if size == 1 and len(head) == 16:
                (size,) = struct.unpack_from(">Q", head, 8)
                header = 16
            size = size or end - at
            if size < header:
                return None
            if kind == b"moov":
                file.seek(at + header)
                return file.read(min(size - header, MAX_HEADER))
            at += size
    return None
