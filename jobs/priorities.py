"""Priorities: lower runs first. The labels and their numbers are a setting; any whole number stands beside them."""

from __future__ import annotations

import re
from typing import Any

from jobs import conf
from jobs.exceptions import BadValue

HIGH, NORMAL, LOW = 0, 5, 10
"""The numbers that the labels high, normal and low have unless JOBS["PRIORITIES"] says otherwise."""

Priority = int | str
"""A whole number, or a label."""


def labels() -> dict[str, int]:
    """Every label with its number, most urgent first; high, normal and low are always among them."""
    return dict(conf.current().priorities)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31


def parse_priority(value: Any) -> int:
    """The number of a label, or the number itself, also as text. Raises BadValue."""
    number = value
    if isinstance(value, str):
        text = value.strip().lower()
        number = labels().get(text)
        if number is None and re.fullmatch(r"[+-]?\d{1,10}", text):
            number = int(text)
    if not is_whole(number):
        raise BadValue(
            f"{value!r} is not a priority: use {', '.join(labels())} or a whole number (lower runs first).",
            code="bad_priority",
        )
    return int(number)


def priority_label(value: int) -> str:
    return next((name for name, number in labels().items() if number == value), str(value))
