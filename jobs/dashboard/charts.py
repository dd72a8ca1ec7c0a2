"""Bar charts as SVG, drawn by the server: what ended, span by span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from jobs.dashboard import words
from jobs.statistics import Ended, History

SPAN = timedelta(days=1)
"""What the longest chart shows."""
HEIGHT = 100
STEP = 10
"""Width of a bar and the gap beside it; the picture is stretched to whatever width there is."""
GAP = 2


@dataclass(frozen=True)
class Bar:
    x: int
    completed_height: float
    completed_y: float
    failed_height: float
    failed_y: float
    says: str


@dataclass(frozen=True)
class Chart:
    name: str
    title: str
    bars: Sequence[Bar]
    completed: int
    failed: int
    highest: int
    per: str
    ticks: Sequence[str]
    """Times under the picture, evenly spaced."""

    @property
    def width(self) -> int:
        return STEP * len(self.bars)

    @property
    def bar_width(self) -> int:
        return STEP - GAP

    @property
    def totals(self) -> tuple[str, str]:
        return f"{self.completed:,}", f"{self.failed:,}"

    @property
    def scale(self) -> str:
        return f"{self.highest:,} {self.per}"

    @property
    def says(self) -> str:
        """For those who cannot see it."""
        if not self.completed and not self.failed:
            return f"{self.title}: nothing ended."
        return (
            f"{self.title}: {words.plural(self.completed, 'run')} completed, {self.failed:,} failed, "
            f"at most {self.highest:,} {self.per}."
        )


def hour_chart(history: History) -> Chart:
    buckets = history.buckets(60, timedelta(minutes=1))
    return draw("hour", "Last hour", buckets, "per minute", timedelta(minutes=1))


def day_chart(history: History) -> Chart:
    buckets = history.buckets(48, timedelta(minutes=30))
    return draw("day", "Last 24 hours", buckets, "per half hour", timedelta(minutes=30))


def draw(
    name: str, title: str, buckets: Sequence[tuple[datetime, Ended]], per: str, size: timedelta
) -> Chart:
    highest = max((ended.completed + ended.failed for _, ended in buckets), default=0)
    scale = HEIGHT / highest if highest else 0.0
    bars = []
    for number, (at, ended) in enumerate(buckets):
        done = _height(ended.completed, scale)
        lost = _height(ended.failed, scale)
        done = min(done, HEIGHT - lost)
        bars.append(
            Bar(
                number * STEP + GAP // 2,
                round(done, 2),
                round(HEIGHT - done, 2),
                round(lost, 2),
                round(HEIGHT - done - lost, 2),
                f"{_clock(at)}–{_clock(at + size)}: {ended.completed:,} completed, {ended.failed:,} failed",
            )
        )
    marks = [buckets[len(buckets) * part // 4][0] for part in range(4)] if buckets else []
    return Chart(
        name,
        title,
        bars,
        sum(ended.completed for _, ended in buckets),
        sum(ended.failed for _, ended in buckets),
        highest,
        per,
        [*(_clock(at) for at in marks), "now"],
    )


def _height(count: int, scale: float) -> float:
    """Something that happened is seen, however much more happened at another time."""
    return max(2.0, count * scale) if count else 0.0


def _clock(at: datetime) -> str:
    return f"{timezone.localtime(at):%H:%M}"
