"""Numbers and durations as people read them. `inWords` in live.js says durations the same way."""

from __future__ import annotations

from datetime import timedelta


def duration(span: timedelta | float | None) -> str:
    """ "12 s", "3 min": how long ago, how much longer."""
    if span is None:
        return ""
    seconds = int(max(0.0, span.total_seconds() if isinstance(span, timedelta) else span))
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86400} d"


def fine_duration(seconds: float) -> str:
    """ "40 ms", "1.3 s": for measurements."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return duration(seconds) if seconds >= 5400 else f"{int(seconds // 60)} min {int(seconds % 60)} s"


def number(value: int) -> str:
    """ "9,876", "12.3k", "1.2M"."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if value >= size:
            return f"{value / (1000 if unit == 'k' else size):.1f}".removesuffix(".0") + unit
    return f"{value:,}"


def plural(count: int, noun: str) -> str:
    return f"{number(count)} {noun}" if count == 1 else f"{number(count)} {noun}s"
