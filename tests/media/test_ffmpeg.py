"""ffmpeg is contained: it can be stopped, times out, dies with its parent, and its last words are kept."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.processes import wait_until
from tests.support.videos.codes import coded
from tests.support.videos.media_clips import LIMITS, binary, make_clip, plan_for
from videos.media import encode, ffmpeg
from videos.media.exceptions import ChunkRefused, FfmpegFailed, FfmpegStopped, FfmpegTimedOut
from videos.media.ffmpeg import Progress, RunLimits

ENDLESS = ["-re", "-f", "lavfi", "-i", "testsrc2=s=64x64", "-c:v", "libx264", "-f", "null", "-"]


def run(arguments: Sequence[str], folder: Path, **options: object) -> str:
    options.setdefault("limits", LIMITS)
    return ffmpeg.run(arguments, ffmpeg=binary(), folder=folder, **options)  # type: ignore[arg-type]


def ffmpegs_in(folder: Path) -> list[int]:
    """The processes that work in this folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if (process / "cwd").readlink() == folder:
                    found.append(int(process.name))
            except OSError:
                continue
    return found


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[Progress] = []
    run(
        ["-f", "lavfi", "-i", "testsrc2=s=64x64:d=2", "-f", "null", "-"],
        tmp_path,
        on_progress=told.append,
    )
    assert told[-1].done
    assert told[-1].frame == 50


def test_its_last_lines_are_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(FfmpegFailed, match=r"No such filter: 'nonsense'") as caught:
        run(["-f", "lavfi", "-i", "testsrc2", "-vf", "nonsense", "-f", "null", "-"], tmp_path)
    assert caught.value.returncode


def test_being_asked_to_stop_kills_it_within_two_seconds(tmp_path: Path) -> None:
    asked = threading.Event()
    threading.Timer(0.7, asked.set).start()
    started = time.monotonic()
    with pytest.raises(FfmpegStopped):
        run(ENDLESS, tmp_path, stop=asked.is_set)
    assert time.monotonic() - started < 0.7 + 2
    assert ffmpegs_in(tmp_path) == []


def test_the_clock_ends_it(tmp_path: Path) -> None:
    with pytest.raises(FfmpegTimedOut, check=coded("took_too_long")):
        run(ENDLESS, tmp_path, limits=RunLimits(wall_clock=1))
    assert ffmpegs_in(tmp_path) == []


def test_no_progress_ends_it(tmp_path: Path) -> None:
    fifo = tmp_path / "never.mkv"
    os.mkfifo(fifo)
    with pytest.raises(FfmpegTimedOut, check=coded("no_progress")):
        run(["-i", f"file:{fifo}", "-f", "null", "-"], tmp_path, limits=RunLimits(no_progress=1))


def test_it_cannot_write_more_than_it_may(tmp_path: Path) -> None:
    with pytest.raises(FfmpegFailed) as caught:
        run(
            ["-f", "lavfi", "-i", "testsrc2=s=640x360:d=20", "-c:v", "rawvideo", "out.avi"],
            tmp_path,
            limits=RunLimits(file_size=1 << 20),
        )
    assert caught.value.returncode
    assert (tmp_path / "out.avi").stat().st_size <= 1 << 20


def test_it_cannot_use_more_memory_than_it_may(tmp_path: Path) -> None:
    with pytest.raises(FfmpegFailed):
        run(
            ["-f", "lavfi", "-i", "color=s=8000x8000:d=1", "-c:v", "libx264", "-f", "null", "-"],
            tmp_path,
            limits=RunLimits(address_space=300 << 20),
        )


def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Killed, not asked: nothing can clean up, and no orphan keeps encoding."""
    folder = tmp_path / "work"
    folder.mkdir()
    code = (
        "from pathlib import Path; from videos.media import ffmpeg;"
        f"ffmpeg.run({ENDLESS!r}, ffmpeg=Path({str(binary())!r}), folder=Path({str(folder)!r}))"
    )
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    try:
        wait_until(lambda: len(ffmpegs_in(folder)) == 1)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert wait_until(lambda: not ffmpegs_in(folder))


def test_a_chunk_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "clip.mp4", frames=100)
    plan = plan_for(source)
    out = tmp_path / "out"
    with pytest.raises(FfmpegStopped):
        encode.encode_chunk(plan, 1, source=source, into=out, ffmpeg_binary=binary(), stop=lambda: True)
    assert list(out.iterdir()) == []


def test_another_build_is_refused(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "clip.mp4", frames=30)
    plan = plan_for(source)
    data = {**plan.to_json(), "ffmpeg": "another"}
    with pytest.raises(ChunkRefused, check=coded("other_build")):
        encode.encode_chunk(
            type(plan).from_json(data), 1, source=source, into=tmp_path, ffmpeg_binary=binary()
        )


def test_an_init_that_differs_from_the_other_chunks_is_refused(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "clip.mp4", frames=100)
    plan = plan_for(source)
    out = tmp_path / "out"
    (out / "90p").mkdir(parents=True)
    (out / "90p" / "init.mp4").write_bytes(b"another")
    with pytest.raises(ChunkRefused, check=coded("other_init")):
        encode.encode_chunk(plan, 1, source=source, into=out, ffmpeg_binary=binary(), limits=LIMITS)
    assert [path.name for path in out.iterdir()] == ["90p"]


def test_a_missing_binary_is_named() -> None:
    with pytest.raises(FfmpegFailed, match="/nowhere/ffmpeg"):
        ffmpeg.binary("/nowhere/ffmpeg")


def test_reading_for_long_before_anything_can_be_shown_is_progress(tmp_path: Path) -> None:
    """A chunk of a container without an index may have to be read from the beginning."""
    source = make_clip(
        tmp_path / "clip.avi", frames=50, size=(640, 360), video=("-c:v", "rawvideo"), sounds=()
    )
    moving = run(
        [*ffmpeg.source_input(source, "avi", "-re"), "-vf", "select=gte(t\\,1.9)", "-f", "null", "-"],
        tmp_path,
        reads=[source],
        limits=RunLimits(no_progress=1),
    )
    assert "killed" not in moving
