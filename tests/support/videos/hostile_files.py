"""Files that somebody has made to do harm, and a watch on the files that they are after."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.videos.media_clips import make_clip, run_ffmpeg

HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{canary}\n#EXT-X-ENDLIST\n"
CONCAT = "ffconcat version 1.0\nfile '{canary}'\nduration 10\n"
DASH = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT10S">
<Period><AdaptationSet mimeType="video/mp4"><Representation id="1" bandwidth="1"><BaseURL>{canary}</BaseURL>
<SegmentBase/></Representation></AdaptationSet></Period></MPD>"""
SDP = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"


@contextmanager
def nobody_opens(path: Path) -> Iterator[None]:
    """Fails if any process opens the file: the kernel counts (inotify)."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watch, os.fsencode(path), 0x21) >= 0  # opened, or read
    try:
        yield
        with pytest.raises(BlockingIOError):
            os.read(watch, 4096)
    finally:
        os.close(watch)


def encrypted(path: Path) -> Path:
    clip = make_clip(path.with_name(f"plain-{path.name}"), frames=25)
    run_ffmpeg(
        *("-i", clip, "-c", "copy", "-encryption_scheme", "cenc-aes-ctr"),
        *("-encryption_key", "00" * 16, "-encryption_kid", "11" * 16, path),
    )
    return path


def magicyuv(path: Path) -> Path:
    run_ffmpeg("-f", "lavfi", "-i", "testsrc=s=64x64:d=0.2", "-c:v", "magicyuv", "-f", "matroska", path)
    return path


def giant(path: Path, *, side: int = 30_000) -> Path:
    """An AVI file whose header promises a picture of this size."""
    made = make_clip(path.with_suffix(".avi"), frames=2, sounds=(), video=("-c:v", "rawvideo"))
    data = bytearray(made.read_bytes())
    struct.pack_into("<ii", data, data.index(b"strf") + 12, side, side)
    path.write_bytes(bytes(data))
    return path


def endless(path: Path, *, pictures: int = 25, seconds_each: int = 1) -> Path:
    """A small MP4 file whose tables promise so many pictures, or pictures that last for ever."""
    clip = make_clip(path.with_name(f"short-{path.name}"), frames=25, sounds=(), video=("-c:v", "mpeg4"))
    data = bytearray(clip.read_bytes())
    data = data.replace(b"edts", b"free")  # which says how long it is really
    (timescale,) = struct.unpack_from(">I", data, data.index(b"mdhd") + 16)
    struct.pack_into(">III", data, data.index(b"stts") + 8, 1, pictures, timescale * seconds_each)
    if pictures != 25:
        struct.pack_into(">II", data, data.index(b"stsz") + 8, 1, pictures)
        struct.pack_into(">IIII", data, data.index(b"stsc") + 8, 1, 1, pictures, 1)
    path.write_bytes(bytes(data))
    return path
