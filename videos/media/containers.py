"""Which files may be opened at all: decided by their first bytes, before any demuxer sees them.

ffmpeg guesses a format by content and by name, and some of its formats are lists of *other* files (HLS,
DASH, ffconcat). A file is therefore opened only with the one demuxer that its magic bytes stand for, and
only codecs on the lists below are ever decoded.
"""

from pathlib import Path
from typing import NamedTuple

from videos.media.exceptions import NotPlayable

HEAD = 4096


class Container(NamedTuple):
    """A kind of file we open, and the demuxer that reads it."""

    name: str
    demuxer: str
    """What `-f` takes."""
    full_name: str
    """The demuxer's own name for itself, which is what a format whitelist is compared with."""
    indexed: bool
    """A seek lands on a keyframe at or before the asked time."""


MOV = Container("mp4", "mov", "mov,mp4,m4a,3gp,3g2,mj2", indexed=True)
MATROSKA = Container("matroska", "matroska", "matroska,webm", indexed=True)
AVI = Container("avi", "avi", "avi", indexed=True)
MPEGTS = Container("mpegts", "mpegts", "mpegts", indexed=False)
MPEGPS = Container("mpeg", "mpeg", "mpeg", indexed=False)
FLV = Container("flv", "flv", "flv", indexed=False)
OGG = Container("ogg", "ogg", "ogg", indexed=False)
ASF = Container("asf", "asf", "asf", indexed=False)

CONTAINERS = {c.name: c for c in (MOV, MATROSKA, AVI, MPEGTS, MPEGPS, FLV, OGG, ASF)}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names of ffmpeg's decoders. What is not here is never decoded: rare formats have had the worst holes
# (MagicYUV: CVE-2026-8461).
VIDEO_DECODERS = _words(
    "h264 hevc av1 libdav1d libaom-av1 vp8 libvpx vp9 libvpx-vp9 mpeg1video mpeg2video mpeg4 msmpeg4 msmpeg4v2 "
    "h263 flv theora mjpeg prores dnxhd dvvideo wmv1 wmv2 wmv3 vc1 ffv1 rawvideo"
)
AUDIO_DECODERS = _words(
    "aac aac_latm mp1float mp2 mp2float mp3 mp3float ac3 eac3 dca opus libopus vorbis flac alac "
    "pcm_u8 pcm_s16le pcm_s16be pcm_s24le pcm_s24be pcm_s32le pcm_s32be pcm_f32le pcm_f32be pcm_f64le "
    "pcm_mulaw pcm_alaw pcm_bluray pcm_dvd wmav1 wmav2 adpcm_ms adpcm_ima_wav adpcm_ima_qt adpcm_swf "
    "nellymoser amrnb amrwb gsm_ms"
)
TEXT_SUBTITLES = frozenset(("subrip", "srt", "ass", "ssa", "webvtt", "mov_text", "text"))

# PyAV names some codecs by their format, some by their decoder.
VIDEO_CODECS = VIDEO_DECODERS | {"msmpeg4v3", "flv1"}
AUDIO_CODECS = AUDIO_DECODERS | {"mp1", "dts", "amr_nb", "amr_wb"}


def whitelist(*names: frozenset[str]) -> str:
    return ",".join(sorted(frozenset().union(*names)))


def sniff(path: Path) -> Container:
    """The container that the file's first bytes stand for, or NotPlayable."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.strip(b"\x00"):
        raise (
            NotPlayable("The file holds nothing but zeros.", code="zeros")
            if head
            else NotPlayable("The file is empty.", code="empty")
        )
    container = _container(head)
    if container is None:
        raise _what_it_is_instead(head)
    return container


def _container(head: bytes) -> Container | None:
    box = head[4:8]
    if box == b"ftyp" and head[8:12] in _IMAGE_BRANDS:
        return None
    if box in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"):
        return MOV
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return MATROSKA
    if head.startswith(b"RIFF") and head[8:12] == b"AVI ":
        return AVI
    if _is_transport_stream(head):
        return MPEGTS
    if head.startswith(b"\x00\x00\x01\xba"):
        return MPEGPS
    if head.startswith(b"FLV\x01"):
        return FLV
    if head.startswith(b"OggS"):
        return OGG
    if head.startswith(bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")):
        return ASF
    return None


def _is_transport_stream(head: bytes) -> bool:
    return any(
        len(head) > start + 2 * size and all(head[start + i * size] == 0x47 for i in range(3))
        for start, size in ((0, 188), (4, 192), (0, 204))
    )


_IMAGE_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1", b"jxl ")
_IMAGES = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"BM",
    b"II*\x00",
    b"MM\x00*",
    b"8BPS",
    b"\x00\x00\x00\x0cJXL ",
)
_SOUND = (b"ID3", b"fLaC", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xf1", b"\xff\xf9", b"FORM", b"#!AMR")


def _what_it_is_instead(head: bytes) -> NotPlayable:
    if head[4:8] == b"ftyp" or head.startswith(_IMAGES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return NotPlayable("The file is an image, not a video.", code="image")
    if head.startswith(_SOUND) or (head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE"):
        return NotPlayable("The file has sound but no picture.", code="sound_only")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"#extm3u", b"ffconcat", b"[playlist]")) or b"<mpd" in text or b"<smil" in text:
        return NotPlayable(
            "The file is a playlist: a list of other files. Upload the video itself.", code="playlist"
        )
    if _looks_like_text(head):
        return NotPlayable("The file is text, not a video.", code="text")
    return NotPlayable(
        "The file is of a kind we don't open. MP4, MOV, MKV, WebM, AVI, MPEG, WMV, FLV and Ogg video work.",
        code="unknown_kind",
    )


def _looks_like_text(head: bytes) -> bool:
    if b"\x00" in head:
        return head.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # a character cut by the end of what was read
    return True
