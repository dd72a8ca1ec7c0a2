"""Look at a stranger's file in a process of its own, with limits on memory, time and what it may open.

A demuxer allocates what a file's header claims: six kilobytes can ask for six gigabytes. That must cost nobody but
the process that asks, never the web server or the worker.
"""

import contextlib
import dataclasses
import importlib.util
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from videos.media import serial
from videos.media.exceptions import LookFailed, MediaError, NotPlayable
from videos.media.ffmpeg import CONTAIN, SYSTEM_FOLDERS
from videos.media.source import Limits, SourceInfo

logger = logging.getLogger(__name__)

MEMORY = 4 << 30
"""Address space: enough to decode the first pictures of the largest video we take."""
SLACK = 60
"""Seconds beyond Limits.scan_seconds, after which it has hung."""
TOO_MUCH = "The file asks for more memory or time than a video needs: it is damaged, or made to do harm."

CHILD = """
import importlib.util, sys
folder, packages, *arguments = sys.argv[1:]
if packages not in sys.path:
    sys.path.append(packages)
spec = importlib.util.spec_from_file_location("videos", f"{folder}/__init__.py", submodule_search_locations=[folder])
videos = sys.modules["videos"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(videos)
from videos.media.examine import answer
answer(*arguments)
"""
"""The child finds this package without a look at the folder around it, where a site keeps its secrets."""


def examine(path: Path, *, limits: Limits = Limits(), memory: int = MEMORY) -> SourceInfo:  # noqa: B008 (frozen)
    """What probe() says, or NotPlayable (LookFailed: the process broke). A file that breaks it breaks nothing else."""
    try:
        path = path.resolve(strict=True)
    except OSError:
        raise NotPlayable("The file is not there.") from None
    process = subprocess.Popen(
        _command(path, limits, memory),
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
            answer, complaints = process.communicate(timeout=max(0, limits.scan_seconds) + SLACK)
        except subprocess.TimeoutExpired:
            raise LookFailed(TOO_MUCH) from None
        finally:
            process.kill()
    return _read(path, process.returncode, answer, complaints)


def _command(path: Path, limits: Limits, memory: int) -> list[str]:
    videos, packages = Path(__file__).parents[1], _packages()
    rules: dict[str, Any] = {
        "parent": os.getpid(),
        "address_space": memory,
        "file_size": 0,
        "cpu_seconds": int(max(0, limits.scan_seconds)) + SLACK,
        "nice": 0,
        "landlock": True,
        "read": [str(path)],
        "write": [],
        "run": [sys.prefix, sys.base_prefix, str(packages), str(videos), *SYSTEM_FOLDERS],
    }
    asked = json.dumps(dataclasses.asdict(limits))
    return [
        *(sys.executable, "-I", "-S", str(CONTAIN), json.dumps(rules)),
        *(sys.executable, "-I", "-B", "-c", CHILD, str(videos), str(packages), str(path), asked),
    ]


def _packages() -> Path:
    """Where PyAV is, without loading it here: it takes 25 MB, and only the child needs it."""
    spec = importlib.util.find_spec("av")
    if spec is None or spec.origin is None:
        raise MediaError("PyAV is not installed; install the `videos` extra.")
    return Path(spec.origin).parents[1]


def _read(path: Path, returncode: int, answer: bytes, complaints: bytes) -> SourceInfo:
    try:
        said = json.loads(answer)
    except ValueError:
        logger.warning(
            "looking at %s ended with %d: %s",
            path.name,
            returncode,
            complaints[-2000:].decode(errors="replace").strip(),
        )
        raise LookFailed(TOO_MUCH) from None
    if "refused" in said:
        raise NotPlayable(said["refused"])
    return serial.from_json(SourceInfo, said["found"])


def answer(path: str, asked: str) -> None:
    """Called in the child."""
    from videos.media.probe import probe

    try:
        said = {"found": serial.to_json(probe(Path(path), limits=Limits(**json.loads(asked))))}
    except NotPlayable as refusal:
        said = {"refused": refusal.reason}
    except MemoryError:
        said = {"refused": TOO_MUCH}
    json.dump(said, sys.stdout)
