"""What an initialisation segment says about its track, read from its boxes."""

import struct
from dataclasses import dataclass

from videos.media.boxes import BadBoxes, Box, Data, boxes, need
from videos.media.encoders import Codec, codecs


@dataclass(frozen=True)
class TrackHeader:
    """What an initialisation segment says about its track."""

    timescale: int
    codec: str
    """As in HLS's CODECS, for example "avc1.64001f" or "mp4a.40.2"."""
    width: int = 0
    height: int = 0
    sample_rate: int = 0
    channels: int = 0


def track_header(data: Data) -> TrackHeader:
    """Read the one track of an initialisation segment."""
    mdia = need(data, "moov/trak/mdia")
    stsd = need(data, "minf/stbl/stsd", mdia.body, mdia.end)
    entry = next(boxes(data, stsd.body + 8, stsd.end), None)
    if entry is None:
        raise BadBoxes("the track has no sample description")
    try:
        mdhd = need(data, "mdhd", mdia.body, mdia.end)
        (timescale,) = struct.unpack_from(">I", data, mdhd.body + (20 if data[mdhd.body] == 1 else 12))
        if entry.kind == b"mp4a":
            return _sound(data, entry, timescale)
        for codec in codecs():
            if entry.kind == codec.entry.encode():
                return _picture(data, entry, timescale, codec)
    except (struct.error, IndexError):
        raise BadBoxes(f"the sample description {entry.kind!r} is cut off") from None
    raise BadBoxes(f"the sample description is {entry.kind!r}, which we never write")


def _picture(data: Data, entry: Box, timescale: int, codec: Codec) -> TrackHeader:
    width, height = struct.unpack_from(">HH", data, entry.body + 24)
    configuration = need(data, codec.configuration, entry.body + 78, entry.end)
    name = codec.name(data[configuration.body : configuration.end])
    return TrackHeader(timescale, name, width=width, height=height)


def _sound(data: Data, entry: Box, timescale: int) -> TrackHeader:
    channels, _, _, _, rate = struct.unpack_from(">HHHHI", data, entry.body + 16)
    esds = need(data, "esds", entry.body + 28, entry.end)
    name = _aac_codec(data[esds.body + 4 : esds.end])
    return TrackHeader(timescale, name, sample_rate=rate >> 16, channels=channels)


def _aac_codec(descriptors: bytes) -> str:
    """RFC 6381's name, from the object type and the first five bits of the decoder's configuration."""
    at, object_type = 0, 0x40
    while at < len(descriptors):
        tag = descriptors[at]
        at += 1
        size = 0
        while at < len(descriptors):
            byte = descriptors[at]
            at += 1
            size = size << 7 | byte & 0x7F
            if not byte & 0x80:
                break
        if tag == 3:  # ES descriptor: its children follow
            at += 3
        elif tag == 4:  # decoder configuration
            object_type = descriptors[at]
            at += 13
        elif tag == 5 and size:
            return f"mp4a.{object_type:02x}.{descriptors[at] >> 3}"
        else:
            at += size
    return f"mp4a.{object_type:02x}"
