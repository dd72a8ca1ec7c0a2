"""What is no playable video is refused with a code and a sentence for a person, and no other file is ever opened."""

import os
import re
import resource
import struct
from fractions import Fraction
from pathlib import Path

import pytest

from tests.support.videos.codes import coded
from tests.support.videos.hostile_files import CONCAT, DASH, HLS, SDP, encrypted, endless, giant, nobody_opens
from tests.support.videos.media_clips import LIMITS, binary, make_clip, run_ffmpeg
from videos.media import contained, ffmpeg
from videos.media import examine as examining
from videos.media.examine import examine
from videos.media.exceptions import FfmpegFailed, NotPlayable
from videos.media.probe import probe
from videos.media.source import Limits


def refused(path: Path, **limits: float) -> NotPlayable:
    with pytest.raises(NotPlayable) as caught:
        probe(path, limits=Limits(**limits))  # type: ignore[arg-type]
    reason = caught.value.reason
    with pytest.raises(NotPlayable, match=f"^{re.escape(reason)}$", check=coded(caught.value.code)):
        examine(path, limits=Limits(**limits))  # type: ignore[arg-type]
    assert reason.endswith(".")
    assert reason[0].isupper()
    assert str(path) not in reason
    return caught.value


def refusal(path: Path, **limits: float) -> str:
    return refused(path, **limits).code


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.mp4"
    path.touch()
    assert refusal(path) == "empty"


def test_zeros(tmp_path: Path) -> None:
    path = tmp_path / "zeros.mp4"
    path.write_bytes(bytes(100_000))
    assert refusal(path) == "zeros"


def test_a_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nothing.mp4") == "missing"


@pytest.mark.parametrize("text", ["Dear Sir or Madam,\n", "ünïcödé " * 1000, "{}", "<html></html>"])
def test_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "letter.mp4"
    path.write_text(text)
    assert refusal(path) == "text"


@pytest.mark.parametrize("codec", ["png", "jpg", "gif", "bmp", "webp", "tiff"])
def test_images(tmp_path: Path, codec: str) -> None:
    path = tmp_path / f"image.{codec}"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc=s=64x64", "-frames:v", "1", path)
    assert refusal(path) == "image"


@pytest.mark.parametrize(
    "name", ["sound.m4a", "sound.mp3", "sound.wav", "sound.flac", "sound.ogg", "sound.mka", "sound.mp4"]
)
def test_sound_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    run_ffmpeg("-f", "lavfi", "-i", "sine=d=1", path)
    assert refusal(path) == "sound_only"


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
    assert refusal(path) == "sound_only"


def test_an_encrypted_file(tmp_path: Path) -> None:
    assert refusal(encrypted(tmp_path / "encrypted.mp4")) == "encrypted"


@pytest.mark.parametrize("name", ["noise.mp4", "noise.mkv", "noise.ts"])
def test_noise_behind_a_good_start(tmp_path: Path, name: str) -> None:
    clip = make_clip(tmp_path / f"good-{name}", frames=25)
    path = tmp_path / name
    path.write_bytes(clip.read_bytes()[:1000] + os.urandom(50_000))
    assert refusal(path)


def test_an_mp4_without_its_index(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "whole.mp4", frames=50)
    path = tmp_path / "cut.mp4"
    path.write_bytes(clip.read_bytes()[:-5000])
    assert refusal(path) == "damaged"


def test_no_duration(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", frames=1, sounds=(), video=("-c:v", "mpeg4"))
    data = bytearray(clip.read_bytes())
    at = data.index(b"stts") + 8
    assert struct.unpack_from(">II", data, at) == (1, 1)
    struct.pack_into(">I", data, at + 8, 1)  # the only picture lasts one tick
    path = tmp_path / "instant.mp4"
    path.write_bytes(bytes(data))
    assert refusal(path) == "no_duration"


def test_limits(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", frames=50, sounds=(500, 1000))
    large = refused(clip, pixels=320 * 180 - 1)
    assert (large.code, "320×180" in large.reason) == ("picture_too_large", True)
    assert refusal(clip, side=319) == "picture_too_large"
    assert refusal(clip, duration=1.9) == "too_long"
    assert refusal(clip, streams=2) == "too_many_tracks"
    assert refusal(clip, scan_seconds=-1) == "slow_to_read"


@pytest.mark.parametrize(("side", "code"), [(16_000, "picture_too_large"), (30_000, "absurd_size")])
def test_a_header_that_promises_a_giant_picture(tmp_path: Path, side: int, code: str) -> None:
    assert refusal(giant(tmp_path / "huge.avi", side=side)) == code


def test_a_header_that_promises_no_end(tmp_path: Path) -> None:
    assert refusal(endless(tmp_path / "slow.mp4", seconds_each=3600)) == "too_long"


def test_a_header_that_asks_for_gigabytes_gets_none_of_ours(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotPlayable):
        examine(endless(tmp_path / "many.mp4", pictures=150_000_000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # kilobytes


def test_what_breaks_the_process_that_looks_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = make_clip(tmp_path / "good.mp4", frames=5)
    with pytest.raises(NotPlayable, check=coded("too_much")):
        examine(good, memory=100 << 20)
    (said,) = (record for record in caplog.records if record.name == examining.__name__)
    assert (said.levelname, "good.mp4" in said.getMessage()) == ("WARNING", True)


def test_a_machine_that_forbids_to_look_is_to_blame_and_not_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "contain.py"
    killed.write_text(
        "import os, signal; os.kill(os.getpid(), signal.SIGSYS)"
    )  # as a filter of system calls does
    monkeypatch.setattr(contained, "CONTAIN", killed)
    with pytest.raises(NotPlayable, check=coded("look_forbidden")):
        examine(make_clip(tmp_path / "good.mp4", frames=5))


def test_what_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "SLACK", 0)
    monkeypatch.setattr(contained, "CHILD", "while True: pass")
    with pytest.raises(NotPlayable, check=coded("too_much")):
        examine(make_clip(tmp_path / "good.mp4", frames=5), limits=Limits(scan_seconds=1))


def test_the_process_that_looks_can_open_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good, secret = make_clip(tmp_path / "good.mp4", frames=5), tmp_path / "secret"
    secret.write_text("secret")
    for attempt in (f"open({str(secret)!r})", "open('/etc/passwd')", f"open({str(good)!r}, 'w')"):
        monkeypatch.setattr(contained, "CHILD", attempt)
        caplog.clear()
        with pytest.raises(NotPlayable):
            examine(good)
        assert "PermissionError" in caplog.text


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv", "clip.ts"])
def test_both_ways_to_look_see_the_same(tmp_path: Path, name: str) -> None:
    path = make_clip(tmp_path / name, frames=30, rate=Fraction(30000, 1001))
    assert examine(path) == probe(path)


@pytest.mark.parametrize("codec", ["magicyuv", "utvideo", "qtrle", "cinepak"])
def test_codecs_off_the_list(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "rare.mkv" if codec == "magicyuv" else tmp_path / "rare.mov"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc=s=64x64:d=0.2", "-c:v", codec, path)
    assert refusal(path) == "unknown_codec"


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
        assert refusal(path) in ("playlist", "text")


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
