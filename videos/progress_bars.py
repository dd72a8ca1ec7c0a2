"""Progress bars in a terminal, one per quality; where the output is no terminal, a line per step forward."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from videos import progress
from videos.models import QualityStatus, Video, VideoStatus
from videos.progress import Progress

WIDTH = 30
ETA_FROM = 5
"""Percent: before, the estimate jumps too much to be of use."""


class ProgressBars:
    """Draws how far some videos are, over what it drew before."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._is_terminal = bool(out.isatty())
        self._drawn = 0
        self._told: dict[str, str] = {}

    def draw(self, videos: Sequence[Video]) -> None:
        lines: list[str] = []
        for video in videos:
            newest = video.transcodes.order_by("-number").first()
            if newest is None:
                continue
            now = progress.read(newest)
            if self._is_terminal:
                lines += self._bars(video, now)
            else:
                self._tell(video, now)
        if self._is_terminal:
            self._redraw(lines)

    def clear(self) -> None:
        """Take the bars away; what is written next stands in their place."""
        if self._is_terminal:
            self._redraw([])

    def _bars(self, video: Video, now: Progress) -> list[str]:
        """A line for the video, and one for each of its qualities as long as it is under way."""
        title = harmless(video.title)
        if video.status in (VideoStatus.READY, VideoStatus.FAILED):
            return [f"{title}: {video.status}"]
        lines = [f"{title}: {video.status}, {int(now.percent)} % ({now.step.replace('_', ' ')}{_left(now)})"]
        for share in now.qualities:
            if share.status == QualityStatus.SKIPPED:
                continue
            segments = f"{share.segments_completed}/{share.segments_total} segments"
            lines.append(f"  {share.quality:>6} {_bar(share.percent)} {share.percent:5.1f} %  {segments}")
        return lines

    def _tell(self, video: Video, now: Progress) -> None:
        """At each tenth, for logs and pipes."""
        step = f"{video.status}, {int(now.percent) // 10 * 10} % ({now.step.replace('_', ' ')})"
        if self._told.get(video.pk) != step and video.status != VideoStatus.READY:
            self._told[video.pk] = step
            self._out.write(f"{harmless(video.title)}: {step}")

    def _redraw(self, lines: list[str]) -> None:
        size = shutil.get_terminal_size()
        width, height = size.columns - 1, size.lines - 1
        if len(lines) > height:  # what has left the screen cannot be drawn over
            lines = [*lines[: height - 1], f"… and {len(lines) - height + 1} more lines"]
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        self._out.write(up + "".join(f"\x1b[2K{line[:width]}\n" for line in lines) + "\x1b[J", ending="")
        self._out.flush()
        self._drawn = len(lines)


def _left(now: Progress) -> str:
    seconds = round((now.eta - timezone.now()).total_seconds()) if now.eta else 0
    return f", about {_span(seconds)} left" if seconds > 0 and now.percent >= ETA_FROM else ""


def harmless(text: str) -> str:
    """A name from outside, for a terminal: nothing in it is taken for a command."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _bar(percent: float) -> str:
    full = int(WIDTH * percent / 100)
    return "█" * full + "░" * (WIDTH - full)


def _span(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
