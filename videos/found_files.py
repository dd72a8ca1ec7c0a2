"""Files that may be videos, where somebody names a folder or a pattern rather than a file."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from videos import sidecars

UNFINISHED = (".part", ".partial", ".crdownload", ".download", ".tmp", ".filepart")
"""How programs name what they have not finished writing."""
_OTHERS = (*UNFINISHED, *sidecars.SUFFIXES)


def may_be_video(path: Path) -> bool:
    """No link, nothing hidden, nothing unfinished, no subtitles. What a file holds is not looked at here."""
    visible = not path.name.startswith(".") and path.suffix.lower() not in _OTHERS
    return visible and path.is_file() and not path.is_symlink()


def meant_by(path: Path) -> list[Path]:
    """A folder: what lies in it and below. A pattern (`*`, `?`, `[…]`, `**`) that is no file: what it fits.

    Else the path itself, whatever it is. Empty: nothing there may be a video.
    """
    if path.is_dir():
        return list(_below(path))
    if not path.exists() and glob.has_magic(str(path)):
        return list(dict.fromkeys(_fitting(path)))
    return [path]


def _fitting(pattern: Path) -> Iterator[Path]:
    plain = list(takewhile(lambda part: not glob.has_magic(part), pattern.parts))
    root, rest = Path(*plain), Path(*pattern.parts[len(plain) :])
    for path in sorted(root.glob(str(rest))):
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
        elif may_be_video(path):
            yield path


def _below(folder: Path) -> Iterator[Path]:
    """In the order of their names; neither hidden folders nor links to folders are entered."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from filter(may_be_video, (Path(place, name) for name in sorted(names)))
