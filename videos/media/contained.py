"""A function of this package in a process of its own, with limits on memory, time and what it may open.

For everything that hands a stranger's bytes to the libraries behind PyAV: whatever these do there, they do it to a
process that has nothing, and it dies with the one that asked.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videos.media.exceptions import FfmpegStopped, MediaError
from videos.media.ffmpeg import CONTAIN, SYSTEM_FOLDERS

LOOK = 0.1
"""Seconds between two questions whether to stop."""

CHILD = """
import importlib.util, sys
folder, packages, *arguments = sys.argv[1:]
if packages not in sys.path:
    sys.path.append(packages)
spec = importlib.util.spec_from_file_location("videos", f"{folder}/__init__.py", submodule_search_locations=[folder])
videos = sys.modules["videos"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(videos)
from videos.media.contained import answer
answer(*arguments)
"""
"""The child finds this package without a look at the folder around it, where a site keeps its secrets."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    memory: int
    """Address space, in bytes."""
    seconds: float
    read: Sequence[Path]
    write: Sequence[Path] = ()
    largest_file: int = 0


class Broken(MediaError):
    """It did not answer: it was out of memory or time, or fell over."""

    def __init__(self, message: str, *, returncode: int | None = None) -> None:
        super().__init__(message)
        self.is_forbidden = returncode == -signal.SIGSYS
        """A filter of system calls has killed it: no fault of the file."""


def call(
    function: Callable[..., Any], *arguments: str, within: Bounds, stop: Callable[[], bool] | None = None
) -> Any:
    """What the function returns, as JSON has it. Raises Broken, or FfmpegStopped when it was asked to stop."""
    process = subprocess.Popen(
        _command(f"{function.__module__}:{function.__qualname__}", arguments, within),
        cwd="/",
        env={"LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "2"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        with contextlib.suppress(OSError):  # should memory run out, this is what the system ends first
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        try:
            said, complaints = _wait(process, within.seconds, stop)
        finally:
            process.kill()
    try:
        return json.loads(said)
    except ValueError:
        told = complaints[-2000:].decode(errors="replace").strip()
        raise Broken(f"ended with {process.returncode}: {told}", returncode=process.returncode) from None


def _wait(
    process: "subprocess.Popen[bytes]", seconds: float, stop: Callable[[], bool] | None
) -> tuple[bytes, bytes]:
    end = time.monotonic() + seconds
    while True:
        if stop is not None and stop():
            raise FfmpegStopped("Stopped as asked.")
        try:
            return process.communicate(
                timeout=max(0.0, min(LOOK if stop else seconds, end - time.monotonic()))
            )
        except subprocess.TimeoutExpired:
            if time.monotonic() >= end:
                raise Broken(f"took longer than {seconds:g} s") from None


def _command(function: str, arguments: Sequence[str], within: Bounds) -> list[str]:
    videos, packages = Path(__file__).parents[1], _packages()
    rules: dict[str, Any] = {
        "parent": os.getpid(),
        "address_space": within.memory,
        "file_size": within.largest_file,
        "cpu_seconds": int(within.seconds) + 1,
        "nice": 0,
        "landlock": True,
        "read": [str(path) for path in within.read],
        "write": [str(path) for path in within.write],
        "run": [sys.prefix, sys.base_prefix, str(packages), str(videos), *SYSTEM_FOLDERS],
    }
    return [
        *(sys.executable, "-I", "-S", str(CONTAIN), json.dumps(rules)),
        *(sys.executable, "-I", "-B", "-c", CHILD, str(videos), str(packages), function, *arguments),
    ]


def _packages() -> Path:
    """Where PyAV is, without loading it here: it takes 25 MB, and only the child needs it."""
    spec = importlib.util.find_spec("av")
    if spec is None or spec.origin is None:
        raise MediaError("PyAV is not installed; install the `videos` extra.")
    return Path(spec.origin).parents[1]


def answer(function: str, *arguments: str) -> None:
    """Called in the child."""
    module, _, name = function.partition(":")
    json.dump(getattr(importlib.import_module(module), name)(*arguments), sys.stdout)
