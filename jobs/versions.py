"""Versions of workers, compared by their numbers."""

from __future__ import annotations

import re

_FORM = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,3})(?![\d.]).{0,40}", re.ASCII | re.DOTALL)
UNRELEASED = "source"
"""What a worker says that runs from a checkout: nobody can tell how old it is, so it passes."""


def parse_version(text: str) -> tuple[int, ...] | None:
    """The numbers at the beginning, as "1.2.3" of "1.2.3rc1"; None: there are none."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def is_outdated(version: str, minimum: str) -> bool:
    """Below the minimum, or impossible to compare with it. Without a minimum nothing is outdated."""
    wanted = parse_version(minimum)
    if wanted is None or version == UNRELEASED:
        return False
    given = parse_version(version)
    return given is None or given < wanted
