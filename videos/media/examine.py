"""Look at a stranger's file in a process of its own, with limits on memory, time and what it may open.

A demuxer allocates what a file's header claims: six kilobytes can ask for six gigabytes. That must cost nobody but
the process that asks, never the web server or the worker.
"""

import dataclasses
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from videos.media import contained, serial
from videos.media.contained import Bounds, Broken
from videos.media.exceptions import LookFailed, NotPlayable
from videos.media.source import Limits, SourceInfo

logger = logging.getLogger(__name__)

MEMORY = 4 << 30
"""Address space: enough to decode the first pictures of the largest video we take."""
SLACK = 60
"""Seconds beyond Limits.scan_seconds, after which it has hung."""
TOO_MUCH = "The file asks for more memory or time than a video needs: it is damaged, or made to do harm."
FORBIDDEN = (
    "This server cannot look at files: something forbids it the system calls of Landlock. "
    "Whoever runs it must allow them, or let them fail (docs/deploy.md)."
)


def examine(
    path: Path,
    *,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    memory: int = MEMORY,
    stop: Callable[[], bool] | None = None,
) -> SourceInfo:
    """What probe() says, or NotPlayable (LookFailed: the process broke). A file that breaks it breaks nothing else.

    Raises FfmpegStopped once `stop()` is true.
    """
    try:
        path = path.resolve(strict=True)
    except OSError:
        raise NotPlayable("The file is not there.", code="missing") from None
    within = Bounds(memory=memory, seconds=max(0, limits.scan_seconds) + SLACK, read=[path])
    try:
        asked = json.dumps(dataclasses.asdict(limits))
        said = contained.call(answer, str(path), asked, within=within, stop=stop)
    except Broken as broken:
        logger.warning("looking at %s %s", path.name, broken)
        raise (
            LookFailed(FORBIDDEN, code="look_forbidden")
            if broken.is_forbidden
            else LookFailed(TOO_MUCH, code="too_much")
        ) from None
    if "refused" in said:
        raise NotPlayable(said["refused"], code=said["code"])
    return serial.from_json(SourceInfo, said["found"])


def answer(path: str, asked: str) -> dict[str, Any]:
    """Called in the child."""
    from videos.media.probe import probe

    try:
        return {"found": serial.to_json(probe(Path(path), limits=Limits(**json.loads(asked))))}
    except NotPlayable as refusal:
        return {"refused": refusal.reason, "code": refusal.code}
    except MemoryError:
        return {"refused": TOO_MUCH, "code": "too_much"}
