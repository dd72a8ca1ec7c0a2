"""Run ffmpeg, contained: no network, no other files, limits on everything, and dead when we are.

Arguments are lists, never a shell's line. What comes from outside is opened only through source_input(), which
names the demuxer and the decoders it may use. contain.py does what must happen inside the new process.
"""

import contextlib
import functools
import hashlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from videos.media.containers import AUDIO_DECODERS, CONTAINERS, VIDEO_DECODERS, whitelist
from videos.media.exceptions import FfmpegFailed, FfmpegStopped, FfmpegTimedOut

CONTAIN = Path(__file__).with_name("contain.py")
POLL = 0.25
LAST_LINES = 25
LONGEST_LINE = 400
REAL_WORK = 1 << 20
"""Bytes that a process moves while it works; its reports on progress are some hundred a second."""
SYSTEM_FOLDERS = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom")

# The wheel's static ffmpeg crashes on every MPEG-TS file: to decode the station's name, its old C library loads
# the host's character tables, which are for another one. Without tables it leaves the name alone.
# Few arenas and decoder threads: by default both grow with the number of cores, and with them the address space.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "GCONV_PATH": "/nonexistent", "MALLOC_ARENA_MAX": "4"}
DECODER_THREADS = "4"


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """What one run of ffmpeg may use. Times in seconds, sizes in bytes."""

    wall_clock: float = 3600
    no_progress: float = 120
    cpu_seconds: int = 8 * 3600
    address_space: int = 8 << 30
    file_size: int = 16 << 30
    nice: int = 0
    landlock: bool = True


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What ffmpeg says about itself, twice a second."""

    frame: int = 0
    out_time: float = 0
    total_size: int = 0
    done: bool = False


def binary(configured: str | Path | None = None) -> Path:
    """The ffmpeg to run: the configured one, or the wheel's."""
    if configured:
        found = shutil.which(str(configured))
        if found is None:
            raise FfmpegFailed(f"There is no ffmpeg at {configured}.")
        return Path(found).resolve()
    import imageio_ffmpeg  # type: ignore[import-untyped]

    return Path(imageio_ffmpeg.get_ffmpeg_exe()).resolve()


def build_id(ffmpeg: Path) -> str:
    """The build's name and a mark of its configuration: encoders of equal builds give equal bytes."""
    stat = ffmpeg.stat()
    return _build_id(ffmpeg, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _build_id(ffmpeg: Path, size: int, changed: int) -> str:
    output = subprocess.run(
        [ffmpeg, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    version = output.split(" Copyright", 1)[0].removeprefix("ffmpeg version ").split(" ", 1)[0]
    return f"{version}-{hashlib.sha256(output.encode()).hexdigest()[:12]}"


@functools.lru_cache(maxsize=8)
def encoders_of(ffmpeg: Path, build: str) -> frozenset[str]:
    """The encoders that a build lists; whether they work is another question."""
    output = subprocess.run(
        [ffmpeg, "-hide_banner", "-encoders"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    rows = (line.split() for line in output.split("------", 1)[-1].splitlines())
    return frozenset(row[1] for row in rows if len(row) > 1)


def source_input(path: Path, container: str, *before: str, subtitles: Sequence[str] = ()) -> list[str]:
    """`-i path` for a file from outside: one demuxer, known decoders, no other file, no network."""
    kind = CONTAINERS[container]
    decoders = whitelist(VIDEO_DECODERS, AUDIO_DECODERS, frozenset(subtitles))
    return [
        *("-protocol_whitelist", "file", "-format_whitelist", kind.full_name, "-codec_whitelist", decoders),
        *("-threads", DECODER_THREADS, "-f", kind.demuxer, *before, "-i", f"file:{path}"),
    ]


def run(
    arguments: Sequence[str],
    *,
    ffmpeg: Path,
    folder: Path,
    reads: Sequence[Path] = (),
    limits: RunLimits = RunLimits(),  # noqa: B008 (frozen)
    on_progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> str:
    """Run ffmpeg in `folder`, the only place where it can write, and wait for it; returns its last lines.

    Raises FfmpegFailed, with ffmpeg's last lines; FfmpegTimedOut; or FfmpegStopped within a second of
    `stop()` becoming true. Whatever happens, no process is left.
    """
    rules = {
        "parent": os.getpid(),
        "address_space": limits.address_space,
        "file_size": limits.file_size,
        "cpu_seconds": limits.cpu_seconds,
        "nice": limits.nice,
        "landlock": limits.landlock,
        "read": [str(path.resolve()) for path in reads],
        "write": [str(folder.resolve())],
        "run": [str(ffmpeg), *SYSTEM_FOLDERS],
    }
    command = [
        *(sys.executable, "-I", "-S", str(CONTAIN), json.dumps(rules), str(ffmpeg)),
        *("-nostdin", "-hide_banner", "-nostats", "-loglevel", "warning", "-max_error_rate", "1"),
        *("-progress", "pipe:1", "-stats_period", "0.5", *arguments),
    ]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        watcher = _Watcher(process, limits, on_progress, stop)
        try:
            watcher.watch()
        finally:
            _kill(process)
    if process.returncode != 0:
        raise FfmpegFailed(
            f"ffmpeg {_how_it_ended(process.returncode)}.",
            returncode=process.returncode,
            stderr=watcher.last_lines(),
        )
    return watcher.last_lines()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The whole group: ffmpeg and whatever it might have started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _how_it_ended(returncode: int) -> str:
    if returncode >= 0:
        return f"ended with exit status {returncode}"
    names = {
        -signal.SIGXFSZ: "was stopped: it wrote more than it may",
        -signal.SIGXCPU: "was stopped: it used more CPU time than it may",
    }
    return names.get(returncode, f"was killed by signal {-returncode}")


class _Watcher:
    """Reads what ffmpeg says until it ends, and looks at the clock and at `stop` in between."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        limits: RunLimits,
        on_progress: Callable[[Progress], None] | None,
        stop: Callable[[], bool] | None,
    ) -> None:
        self.process = process
        self.limits = limits
        self.on_progress = on_progress
        self.stop = stop
        self.lines: deque[str] = deque(maxlen=LAST_LINES)
        self.partial = {"stdout": b"", "stderr": b""}
        self.values: dict[str, str] = {}
        self.started = self.moved = time.monotonic()
        self.latest = Progress()
        self.bytes_moved = 0

    def watch(self) -> None:
        assert self.process.stdout
        assert self.process.stderr
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ, "stdout")
            selector.register(self.process.stderr, selectors.EVENT_READ, "stderr")
            while selector.get_map():
                for key, _ in selector.select(POLL):
                    data = os.read(key.fd, 65536)
                    if data:
                        self.take(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
                self.check()
        while self.process.poll() is None:  # it closed its pipes but lives on
            self.check()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL)

    def check(self) -> None:
        now = time.monotonic()
        if self.stop is not None and self.stop():
            raise FfmpegStopped("Stopped as asked.", stderr=self.last_lines())
        if now - self.started > self.limits.wall_clock:
            raise FfmpegTimedOut(
                f"ffmpeg took longer than {self.limits.wall_clock:g} s and was killed.",
                stderr=self.last_lines(),
                code="took_too_long",
            )
        if now - self.moved > self.limits.no_progress and not self.reads_or_writes():
            raise FfmpegTimedOut(
                f"ffmpeg made no progress for {self.limits.no_progress:g} s and was killed.",
                stderr=self.last_lines(),
                code="no_progress",
            )

    def reads_or_writes(self) -> bool:
        """Whether it has read or written anything since last asked: it may have to read long before it can show."""
        try:
            lines = Path(f"/proc/{self.process.pid}/io").read_text().split("\n")
        except OSError:
            return False
        bytes_moved = sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))
        if bytes_moved - self.bytes_moved < REAL_WORK:
            return False
        self.bytes_moved = bytes_moved
        self.moved = time.monotonic()
        return True

    def take(self, pipe: str, data: bytes) -> None:
        *lines, rest = (self.partial[pipe] + data).split(b"\n")
        self.partial[pipe] = rest[:LONGEST_LINE]
        for line in lines:
            text = line[:LONGEST_LINE].decode(errors="replace").rstrip("\r")
            if pipe == "stderr":
                self.lines.append(text)
            else:
                self.take_progress(text)

    def take_progress(self, line: str) -> None:
        key, _, value = line.partition("=")
        self.values[key] = value.strip()
        if key != "progress":
            return
        progress = Progress(
            frame=self.number("frame"),
            out_time=self.number("out_time_us") / 1e6,
            total_size=self.number("total_size"),
            done=value == "end",
        )
        if progress != self.latest:
            self.moved = time.monotonic()
            self.latest = progress
        if self.on_progress is not None:
            self.on_progress(progress)

    def number(self, key: str) -> int:
        try:
            return max(0, int(self.values.get(key, "0")))
        except ValueError:  # "N/A"
            return 0

    def last_lines(self) -> str:
        return "\n".join([*self.lines, self.partial["stderr"].decode(errors="replace")]).strip()
