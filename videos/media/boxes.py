"""MP4 boxes: read what an encoder wrote, and write our own initialisation and media segments.

The segments' timestamps are ours, not the muxer's. ffmpeg's muxers shift the first timestamps of every file
(B-frames make the first decode time negative), which makes chunks overlap or start late. Here the samples are
taken from a fragmented MP4 as they are and put into segments whose decode time is the exact frame number on the
grid; EncodePlan.zero says why all of it is shown a few frames later.
"""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from videos.media.exceptions import MediaError

CONTAINERS = frozenset(
    (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"mvex", b"moof", b"traf", b"edts", b"udta", b"dinf")
)
Data = bytes | mmap.mmap

KEYFRAME_FLAGS = 0x02000000
OTHER_FLAGS = 0x01010000


class BadBoxes(MediaError):
    """These bytes are no MP4 that we can read."""


class Box(NamedTuple):
    kind: bytes
    start: int
    """Where its header starts."""
    body: int
    end: int


def boxes(data: Data, start: int = 0, end: int | None = None) -> Iterator[Box]:
    """The boxes between two positions, one after the other."""
    end = len(data) if end is None else end
    while start + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, start)
        body = start + 8
        if size == 1:
            if start + 16 > end:
                raise BadBoxes("a box is cut off")
            (size,) = struct.unpack_from(">Q", data, start + 8)
            body = start + 16
        elif size == 0:
            size = end - start
        if size < body - start or start + size > end:
            raise BadBoxes(f"the box {kind!r} does not fit its place")
        yield Box(kind, start, body, start + size)
        start += size


def find(data: Data, path: str, start: int = 0, end: int | None = None) -> Box | None:
    """The first box at a path such as "moov/trak/mdia"."""
    kind, _, rest = path.partition("/")
    for box in boxes(data, start, end):
        if box.kind == kind.encode():
            found = find(data, rest, box.body, box.end) if rest else box
            if found is not None:
                return found
    return None


def need(data: Data, path: str, start: int = 0, end: int | None = None) -> Box:
    box = find(data, path, start, end)
    if box is None:
        raise BadBoxes(f"there is no {path} box")
    return box


def make(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def full(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    return make(kind, struct.pack(">I", version << 24 | flags), *parts)


# Reading


class Sample(NamedTuple):
    duration: int
    shown_after: int
    """Composition offset: presentation time minus decode time, in ticks."""
    keyframe: bool
    data: bytes


@dataclass(frozen=True)
class Fragment:
    """One `moof` and its `mdat`."""

    sequence: int
    decode_time: int
    samples: list[Sample]

    @property
    def duration(self) -> int:
        return sum(sample.duration for sample in self.samples)

    def shown_at(self) -> list[int]:
        """Presentation times in decode order."""
        at, times = self.decode_time, []
        for sample in self.samples:
            times.append(at + sample.shown_after)
            at += sample.duration
        return times


def fragments(data: Data) -> Iterator[Fragment]:
    """Every fragment of a fragmented MP4 with one track (an encoder's file or one of our segments)."""
    defaults = _track_defaults(data)
    moof: Box | None = None
    for box in boxes(data):
        if box.kind == b"moof":
            moof = box
        elif box.kind == b"mdat" and moof is not None:
            yield _fragment(data, moof, defaults)
            moof = None


class _Defaults(NamedTuple):
    duration: int
    size: int
    flags: int


def _track_defaults(data: Data) -> _Defaults:
    trex = find(data, "moov/mvex/trex")
    if trex is None:
        return _Defaults(0, 0, 0)
    return _Defaults(*struct.unpack_from(">III", data, trex.body + 12))


def _fragment(data: Data, moof: Box, defaults: _Defaults) -> Fragment:
    (sequence,) = struct.unpack_from(">I", data, need(data, "mfhd", moof.body, moof.end).body + 4)
    traf = need(data, "traf", moof.body, moof.end)
    base, defaults = _fragment_defaults(data, need(data, "tfhd", traf.body, traf.end), moof, defaults)
    tfdt = need(data, "tfdt", traf.body, traf.end)
    wide = data[tfdt.body] == 1
    (decode_time,) = struct.unpack_from(">Q" if wide else ">I", data, tfdt.body + 4)
    samples: list[Sample] = []
    for box in boxes(data, traf.body, traf.end):
        if box.kind == b"trun":
            base = _read_run(data, box, base, defaults, samples)
    return Fragment(sequence, decode_time, samples)


def _fragment_defaults(data: Data, tfhd: Box, moof: Box, track: _Defaults) -> tuple[int, _Defaults]:
    flags = struct.unpack_from(">I", data, tfhd.body)[0] & 0xFFFFFF
    at = tfhd.body + 8
    base = moof.start
    values = track._asdict()
    for bit, name in ((0x01, "base"), (0x02, ""), (0x08, "duration"), (0x10, "size"), (0x20, "flags")):
        if flags & bit:
            (value,) = struct.unpack_from(">Q" if bit == 0x01 else ">I", data, at)
            at += 8 if bit == 0x01 else 4
            if name == "base":
                base = value
            elif name:
                values[name] = value
    return base, _Defaults(**values)


def _read_run(data: Data, trun: Box, base: int, defaults: _Defaults, into: list[Sample]) -> int:
    version_flags, count = struct.unpack_from(">II", data, trun.body)
    flags, signed = version_flags & 0xFFFFFF, version_flags >> 24
    at, offset, first_flags = trun.body + 8, base, None
    if flags & 0x001:
        offset = base + struct.unpack_from(">i", data, at)[0]
        at += 4
    if flags & 0x004:
        (first_flags,) = struct.unpack_from(">I", data, at)
        at += 4
    for number in range(count):
        values = {"duration": defaults.duration, "size": defaults.size, "flags": defaults.flags, "offset": 0}
        if number == 0 and first_flags is not None:
            values["flags"] = first_flags
        for bit, name in ((0x100, "duration"), (0x200, "size"), (0x400, "flags"), (0x800, "offset")):
            if flags & bit:
                code = ">i" if name == "offset" and signed else ">I"
                (values[name],) = struct.unpack_from(code, data, at)
                at += 4
        end = offset + values["size"]
        if end > len(data):
            raise BadBoxes("a sample lies outside the file")
        keyframe = not values["flags"] & 0x00010000
        into.append(Sample(values["duration"], values["offset"], keyframe, data[offset:end]))
        offset = end
    return offset


# Writing


def init_segment(data: Data) -> bytes:
    """Our initialisation segment, from the start of an encoder's fragmented MP4.

    Names, dates and tags go (`udta`); an edit list would move the track, so there must be none.
    """
    moov = need(data, "moov")
    if find(data, "trak/edts", moov.body, moov.end):
        raise BadBoxes("the encoder wrote an edit list")
    kept = [data[box.start : box.end] for box in boxes(data, moov.body, moov.end) if box.kind != b"udta"]
    brands = b"iso6" + struct.pack(">I", 0) + b"iso6" + b"cmfc" + b"mp41"
    return make(b"ftyp", brands) + make(b"moov", *kept)


def media_segment(sequence: int, decode_time: int, samples: list[Sample]) -> bytes:
    """One segment of one fragment. Byte for byte the same for the same samples."""
    durations = {sample.duration for sample in samples}
    same_duration = len(durations) == 1
    all_keyframes = all(sample.keyframe for sample in samples)
    reordered = any(sample.shown_after for sample in samples)

    tfhd_flags = 0x020000 | 0x20 | (0x08 if same_duration else 0)
    tfhd = struct.pack(">I", 1)
    if same_duration:
        tfhd += struct.pack(">I", samples[0].duration)
    tfhd += struct.pack(">I", KEYFRAME_FLAGS if all_keyframes else OTHER_FLAGS)

    first_flags = samples[0].keyframe and not all_keyframes
    trun_flags = 0x001 | 0x200 | (0x004 if first_flags else 0)
    trun_flags |= (0 if same_duration else 0x100) | (0x800 if reordered else 0)
    table = bytearray()
    for number, sample in enumerate(samples):
        if number and sample.keyframe and not all_keyframes:
            raise BadBoxes("a keyframe in the middle of a segment")
        if not same_duration:
            table += struct.pack(">I", sample.duration)
        table += struct.pack(">I", len(sample.data))
        if reordered:
            table += struct.pack(">i", sample.shown_after)

    def moof(data_offset: int) -> bytes:
        first = struct.pack(">I", KEYFRAME_FLAGS) if first_flags else b""
        run = struct.pack(">Ii", len(samples), data_offset) + first + bytes(table)
        return make(
            b"moof",
            full(b"mfhd", 0, 0, struct.pack(">I", sequence)),
            make(
                b"traf",
                full(b"tfhd", 0, tfhd_flags, tfhd),
                full(b"tfdt", 1, 0, struct.pack(">Q", decode_time)),
                full(b"trun", 1, trun_flags, run),
            ),
        )

    styp = make(b"styp", b"msdh" + struct.pack(">I", 0) + b"msdh" + b"cmfs")
    header = moof(len(moof(0)) + 8)
    return styp + header + make(b"mdat", *(sample.data for sample in samples))
