"""What is no playable video is refused with a sentence for a person, and no other file is ever opened."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.media_clips import LIMITS, binary, make_clip, run_ffmpeg
from videos.media import ffmpeg
from videos.media.exceptions import FfmpegFailed, NotPlayable
from videos.media.probe import Limits, probe


def refusal(path: Path, **limits: float) -> str:
    with pytest.raises(NotPlayable) as caught:
        probe(path, limits=Limits(**limits))  # type: ignore[arg-type]
    reason = caught.value.reason
    assert reason.endswith(".")
    assert reason[0].isupper()
    assert str(path) not in reason
    return reason


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.mp4"
    path.touch()
    assert "empty" in refusal(path)


def test_zeros(tmp_path: Path) -> None:
    path = tmp_path / "zeros.mp4"
    path.write_bytes(bytes(100_000))
    assert "zeros" in refusal(path)


def test_a_missing_file(tmp_path: Path) -> None:
    assert "not there" in refusal(tmp_path / "nothing.mp4")


@pytest.mark.parametrize("text", ["Dear Sir or Madam,\n", "ünïcödé " * 1000, "{}", "<html></html>"])
def test_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "letter.mp4"
    path.write_text(text)
    assert "text" in refusal(path)


@pytest.mark.parametrize("codec", ["png", "jpg", "gif", "bmp", "webp", "tiff"])
def test_images(tmp_path: Path, codec: str) -> None:
    path = tmp_path / f"image.{codec}"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc=s=64x64", "-frames:v", "1", path)
    assert "image" in refusal(path)


@pytest.mark.parametrize(
    "name", ["sound.m4a", "sound.mp3", "sound.wav", "sound.flac", "sound.ogg", "sound.mka", "sound.mp4"]
)
def test_sound_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    run_ffmpeg("-f", "lavfi", "-i", "sine=d=1", path)
    assert "sound but no picture" in refusal(path)


def test_sound_with_cover_art_is_still_sound(tmp_path: Path) -> None:
    path = tmp_path / "cover.m4a"
    run_ffmpeg(
        *(
            "-f",
            "lavfi",
            "-i",
            "sine=d=1",
            "-f",
            "lavfi",
            "-i",
            "color=red:s=64x64:d=0.04",
            "-map",
            "0",
            "-map",
            "1",
        ),
        *("-c:a", "aac", "-c:v", "png", "-frames:v", "1", "-disposition:v", "attached_pic", path),
    )
    assert "sound but no picture" in refusal(path)


def test_an_encrypted_file(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "plain.mp4", frames=25)
    path = tmp_path / "encrypted.mp4"
    run_ffmpeg(
        *("-i", clip, "-c", "copy", "-encryption_scheme", "cenc-aes-ctr"),
        *("-encryption_key", "00" * 16, "-encryption_kid", "11" * 16, path),
    )
    assert "encrypted" in refusal(path)


@pytest.mark.parametrize("name", ["noise.mp4", "noise.mkv", "noise.ts"])
def test_noise_behind_a_good_start(tmp_path: Path, name: str) -> None:
    clip = make_clip(tmp_path / f"good-{name}", frames=25)
    path = tmp_path / name
    path.write_bytes(clip.read_bytes()[:1000] + os.urandom(50_000))
    refusal(path)


def test_an_mp4_without_its_index(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "whole.mp4", frames=50)
    path = tmp_path / "cut.mp4"
    path.write_bytes(clip.read_bytes()[:-5000])
    assert "damaged or incomplete" in refusal(path)


def test_no_duration(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", frames=1, sounds=(), video=("-c:v", "mpeg4"))
    data = bytearray(clip.read_bytes())
    at = data.index(b"stts") + 8
    assert struct.unpack_from(">II", data, at) == (1, 1)
    struct.pack_into(">I", data, at + 8, 1)  # the only picture lasts one tick
    path = tmp_path / "instant.mp4"
    path.write_bytes(bytes(data))
    assert "no duration" in refusal(path)


def test_limits(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", frames=50, sounds=(500, 1000))
    assert "too large: 320×180" in refusal(clip, pixels=320 * 180 - 1)
    assert "too large" in refusal(clip, side=319)
    assert "too long" in refusal(clip, duration=1.9)
    assert "more than 2 tracks" in refusal(clip, streams=2)
    assert "too long to read" in refusal(clip, scan_seconds=-1)


@pytest.mark.parametrize(("side", "reason"), [(16_000, "too large: 16000×16000"), (30_000, "absurd")])
def test_a_header_that_promises_a_giant_picture(tmp_path: Path, side: int, reason: str) -> None:
    path = make_clip(tmp_path / "huge.avi", frames=2, sounds=(), video=("-c:v", "rawvideo"))
    data = bytearray(path.read_bytes())
    struct.pack_into("<ii", data, data.index(b"strf") + 12, side, side)
    path.write_bytes(bytes(data))
    assert reason in refusal(path)


@pytest.mark.parametrize("codec", ["magicyuv", "utvideo", "qtrle", "cinepak"])
def test_codecs_off_the_list(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "rare.mkv" if codec == "magicyuv" else tmp_path / "rare.mov"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc=s=64x64:d=0.2", "-c:v", codec, path)
    assert "format we don't decode" in refusal(path)


def test_ffmpeg_itself_refuses_a_codec_off_the_list(tmp_path: Path) -> None:
    path = tmp_path / "rare.mkv"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc=s=64x64:d=0.2", "-c:v", "magicyuv", path)
    with pytest.raises(FfmpegFailed, match=r"(?i)whitelist|not found|invalid"):
        ffmpeg.run(
            [*ffmpeg.source_input(path, "matroska"), "-map", "0:v", "-f", "null", "-"],
            ffmpeg=binary(),
            folder=tmp_path,
            reads=[path],
            limits=LIMITS,
        )


# Files that name other files

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


def test_the_watch_itself_notices(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(pytest.fail.Exception), nobody_opens(path):
        path.read_bytes()


@pytest.mark.parametrize("text", [HLS, CONCAT, DASH, SDP, " \n" + HLS, "\ufeff" + HLS])
@pytest.mark.parametrize("name", ["video.mp4", "video.m3u8", "video.ts"])
def test_a_list_of_other_files_is_refused_and_nothing_else_is_opened(
    tmp_path: Path, name: str, text: str
) -> None:
    canary = make_clip(tmp_path / "canary.mp4", frames=5, sounds=())
    path = tmp_path / name
    path.write_text(text.format(canary=canary))
    with nobody_opens(canary):
        assert "playlist" in refusal(path) or "text" in refusal(path)


@pytest.mark.parametrize("text", [HLS, CONCAT, DASH])
@pytest.mark.parametrize("container", ["mp4", "matroska", "mpegts", "avi"])
def test_even_ffmpeg_does_not_follow_it(tmp_path: Path, text: str, container: str) -> None:
    """Should such a file ever get past the probe (swapped afterwards, say), the encoder opens nothing either."""
    canary = make_clip(tmp_path / "canary.mp4", frames=5, sounds=())
    work = tmp_path / "work"
    work.mkdir()
    path = tmp_path / "video.mp4"
    path.write_text(text.format(canary=canary))
    with nobody_opens(canary), pytest.raises(FfmpegFailed):
        ffmpeg.run(
            [*ffmpeg.source_input(path, container), "-map", "0:v", "-f", "null", "-"],
            ffmpeg=binary(),
            folder=work,
            reads=[path],
            limits=LIMITS,
        )


def test_ffmpeg_can_open_nothing_but_its_source_and_its_folder(tmp_path: Path) -> None:
    secret = make_clip(tmp_path / "secret.mp4", frames=5, sounds=())
    work = tmp_path / "work"
    work.mkdir()
    for arguments in (
        ["-i", str(secret), "-f", "null", "-"],
        ["-f", "lavfi", "-i", f"movie={secret}", "-f", "null", "-"],
        ["-f", "lavfi", "-i", "color=red:s=16x16:d=0.1", str(tmp_path / "outside.mp4")],
        ["-f", "lavfi", "-i", "color=red:s=16x16:d=0.1", "-f", "mpegts", "tcp://127.0.0.1:9"],
    ):
        with pytest.raises(FfmpegFailed, match=r"(?i)denied|not permitted"):
            ffmpeg.run(arguments, ffmpeg=binary(), folder=work, limits=LIMITS)
    assert not (tmp_path / "outside.mp4").exists()
