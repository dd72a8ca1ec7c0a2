"""Named priorities: lower runs first; any integer may stand between or beyond them."""

from __future__ import annotations

from jobs.exceptions import BadValue

HIGH = 0
NORMAL = 5
LOW = 10

NAMES = {"high": HIGH, "normal": NORMAL, "low": LOW}


def parse_priority(text: str) -> int:
    if text.lower() in NAMES:
        return NAMES[text.lower()]
    try:
        return int(text)
    except ValueError:
        raise BadValue(
            f"{text!r} is not a priority: use high, normal, low or a whole number.", code="not_a_priority"
        ) from None


def priority_label(value: int) -> str:
    return next((name for name, number in NAMES.items() if number == value), str(value))
