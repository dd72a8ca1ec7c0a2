"""Segments that another machine has made: nothing in them is believed before it was looked at.

Looks at boxes, not at pictures: what is in the samples is for players, which are used to the worst.
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from videos.media import boxes
from videos.media.boxes import BadBoxes, Box, Data

_SELF_CONTAINED = 1


class NotASegment(ValueError):
    """The file is not what its name says; the text says why."""


def check_init(path: Path) -> None:
    """An initialisation segment: one track, whose samples come in segments, and nothing from elsewhere."""
    with _opened(path) as data:
        if [box.kind for box in boxes.boxes(data)] != [b"ftyp", b"moov"]:
            raise BadBoxes("an initialisation segment is ftyp and moov, and nothing else")
        moov = boxes.need(data, "moov")
        if _count(data, moov, b"trak") != 1:
            raise BadBoxes("it has not one track")
        for path_of_box in ("mvhd", "mvex/trex", "trak/tkhd", "trak/mdia/mdhd", "trak/mdia/minf/stbl/stsd"):
            boxes.need(data, path_of_box, moov.body, moov.end)
        if boxes.find(data, "trak/edts", moov.body, moov.end):
            raise BadBoxes("it has an edit list")
        _refuse_elsewhere(data, boxes.need(data, "trak/mdia/minf/dinf/dref", moov.body, moov.end))


def _refuse_elsewhere(data: Data, dref: Box) -> None:
    """Samples could be said to lie in another file, at any address."""
    entries = list(boxes.boxes(data, dref.body + 8, dref.end))
    for entry in entries:
        (flags,) = struct.unpack_from(">I", data, entry.body)
        if entry.kind != b"url " or flags & 0xFFFFFF != _SELF_CONTAINED:
            raise BadBoxes("it refers to samples elsewhere")


def check_media(path: Path, *, number: int, decode_time: int, longest: int) -> int:
    """A media segment: one fragment with this number and time, of at most so many samples; returns how many."""
    with _opened(path) as data:
        kinds = [box.kind for box in boxes.boxes(data)]
        if kinds not in ([b"styp", b"moof", b"mdat"], [b"moof", b"mdat"]):
            raise BadBoxes("a media segment is moof and mdat, and nothing else")
        moof = boxes.need(data, "moof")
        traf = boxes.need(data, "traf", moof.body, moof.end)
        if _count(data, moof, b"traf") != 1 or _count(data, traf, b"trun") != 1:
            raise BadBoxes("it has not one run of samples")
        trun = boxes.need(data, "trun", traf.body, traf.end)
        (samples,) = struct.unpack_from(">I", data, trun.body + 4)
        if not 0 < samples <= longest:  # before anything counts up to it
            raise BadBoxes(f"it has {samples:,} samples, and may have {longest:,}")
        (fragment,) = boxes.fragments(data)
        if fragment.sequence != number:
            raise BadBoxes(f"it is segment {fragment.sequence:,}, not {number:,}")
        if fragment.decode_time != decode_time:
            raise BadBoxes(f"it begins at {fragment.decode_time:,}, not at {decode_time:,}")
        return len(fragment.samples)


def _count(data: Data, parent: Box, kind: bytes) -> int:
    return sum(box.kind == kind for box in boxes.boxes(data, parent.body, parent.end))


@contextmanager
def _opened(path: Path) -> Iterator[mmap.mmap]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
    except (BadBoxes, struct.error, ValueError, IndexError) as problem:
        raise NotASegment(str(problem)) from None
