"""The names of every file, in one place. Nothing outside of VIDEOS["ROOT"] can be named here.

ROOT/incoming/<upload>/<name>           an upload that is not a video yet
ROOT/work/                              temporary files of running jobs
ROOT/<video>/source/<name>              what was uploaded; never changed
ROOT/<video>/g<number>/                 one generation:
    master.m3u8  poster.jpg  …          what media/ writes, see docs/pipeline.md
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from jobs.ulid import is_ulid
from videos import conf
from videos.models import Transcode, Video

_GENERATION = re.compile(r"g([1-9][0-9]{0,8})")
_PUBLISHED = re.compile(r"(?:[a-z0-9][a-z0-9_-]{0,49}/)?[a-z0-9][a-z0-9_-]{0,49}\.(?:m3u8|mp4|m4s|jpg|vtt)")
_LONGEST_STEM = 80


class NoSuchName(ValueError):
    """No file of ours can have this name."""


def root() -> Path:
    return conf.current().folder


def incoming(upload_id: str) -> Path:
    return root() / "incoming" / _checked(upload_id)


def workplace() -> Path:
    """For temporary files that belong to no generation."""
    return root() / "work"


def video_folder(video_id: str) -> Path:
    return root() / _checked(video_id)


def source(video: Video) -> Path:
    return video_folder(video.pk) / "source" / safe_name(video.source_name)


def generation(transcode: Transcode) -> Path:
    return generation_folder(transcode.video_id, transcode.number)


def generation_folder(video_id: str, number: int) -> Path:
    return video_folder(video_id) / f"g{int(number)}"


def published_file(video_id: str, number: int, name: str) -> Path:
    """A file of a generation by the name in its address; NoSuchName for everything that is not the name of one."""
    if not _PUBLISHED.fullmatch(name):
        raise NoSuchName(name)
    return generation_folder(video_id, number) / name


def safe_name(name: str) -> str:
    """The uploaded file's name, made of harmless characters: "Café (1).MP4" becomes "caf-1.mp4"."""
    plain = Path(name.replace("\\", "/")).name.lower()
    stem, dot, suffix = plain.rpartition(".")
    if not dot:
        stem, suffix = plain, ""
    stem = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:_LONGEST_STEM] or "video"
    suffix = re.sub(r"[^a-z0-9]", "", suffix)[:10]
    return f"{stem}.{suffix}" if suffix else stem


def generations_on_disk(video_id: str) -> dict[int, Path]:
    """The folders of generations that exist, by number."""
    return {
        int(match[1]): folder
        for folder in _folders(video_folder(video_id))
        if (match := _GENERATION.fullmatch(folder.name))
    }


def videos_on_disk() -> Iterator[str]:
    """The ids of the videos that have a folder."""
    return (folder.name for folder in _folders(root()) if is_ulid(folder.name))


def uploads_on_disk() -> Iterator[Path]:
    return _folders(root() / "incoming")


def capacity() -> tuple[int, int]:
    """How many bytes are free where the videos are kept, and how many there are in all."""
    place = root()
    usage = shutil.disk_usage(next(path for path in (place, *place.parents) if path.is_dir()))
    return usage.free, usage.total


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it. Resumable: what is gone already is no error."""
    inside = root().resolve()
    if inside not in folder.resolve().parents:
        raise NoSuchName(f"{folder} is not inside {inside}; nothing was removed.")
    for _ in range(3):  # a dying worker may still write its last file
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
    shutil.rmtree(folder)


def _folders(parent: Path) -> Iterator[Path]:
    if not parent.is_dir():
        return iter(())
    return (path for path in sorted(parent.iterdir()) if path.is_dir() and not path.is_symlink())


def _checked(ulid: str) -> str:
    if not is_ulid(ulid):
        raise NoSuchName(ulid)
    return ulid
