"""docs/settings.md, written from the code: `python -m project.settings_table` prints it; a test holds it up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import Field, fields
from datetime import timedelta
from typing import Any

from jobs.settings_schema import ALL

HEAD = """\
# Every setting

Written by `python -m project.settings_table > docs/settings.md` from `jobs/conf.py` and `videos/conf.py`; change those.

In a site's settings: `JOBS = {"CLAIM_DURATION": "30m", …}`, `VIDEOS = {"SEGMENT_SECONDS": 4, …}`. In the environment of
this project: `JOBS_CLAIM_DURATION=30m`, `VIDEOS_SEGMENT_SECONDS=4`; what else the project reads from there is at the
top of [`project/settings.py`](../project/settings.py).

A duration is a `timedelta`, a number of seconds, or a text such as `90`, `30s`, `5m`, `2h`, `30d`. Labels are a
dictionary such as `{"high": 0, "normal": 5, "low": 10, "bulk": 50}`, or a text such as the default. An unknown name or
a bad value stops the site at start-up with a sentence that says what to do.
"""

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def in_words(value: Any) -> str:
    """As one would write it in the settings."""
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        if seconds == value.total_seconds():
            size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
            return f"{seconds // size}{unit}"
        return f"{value / timedelta(milliseconds=1):g}ms"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(f"{name}={number}" for name, number in value)
    if isinstance(value, frozenset):
        return ALL
    if isinstance(value, int):
        return f"{value:_}"
    return str(value)


def kind_of(field: Field[Any]) -> str:
    kinds = {"timedelta": "duration", "bool": "true/false", "int": "whole number", "str": "text"}
    kinds["frozenset[str]"] = "names"
    if str(field.type).startswith("tuple"):
        return "labels"
    return kinds.get(str(field.type), str(field.type))


def rows(schema: Any) -> Iterator[str]:
    yield "| setting | default | kind | what it is for |"
    yield "|---|---|---|---|"
    for field in fields(schema):
        default = f"`{shown}`" if (shown := in_words(field.default)) else "empty"
        help = field.metadata["help"].replace("|", "\\|")
        yield f"| `{field.name.upper()}` | {default} | {kind_of(field)} | {help} |"


def render() -> str:
    from jobs.conf import JobsSettings
    from videos.conf import VideosSettings

    parts = [HEAD]
    for name, schema in (("JOBS", JobsSettings), ("VIDEOS", VideosSettings)):
        parts += [f"## {name}\n", *rows(schema), ""]
    return "\n".join(parts).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
