"""Manifests: what a job has written, with checksums. A manifest is written last, so what it lists is whole.

g1/manifests/chunk_00001.json, audio_1.json, thumbnail.json, kept.json
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from videos.media import serial
from videos.media.encode import Written

FOLDER = "manifests"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The files of one finished job, below the folder of their generation."""

    plan: str
    """The digest of the plan they were made by."""
    frames: int = 0
    """Frames that came out; fewer than planned where the source ends early."""
    parts: tuple[str, ...] = ()
    """The qualities or bitrates that are there."""
    files: tuple[Written, ...] = ()

    def with_part(self, other: Manifest) -> Manifest:
        """Both together; what the other one has made anew replaces what was there."""
        made = {file.name for file in other.files}
        kept = tuple(file for file in self.files if file.name not in made)
        return replace(
            self,
            frames=other.frames,
            parts=(*(part for part in self.parts if part not in other.parts), *other.parts),
            files=(*kept, *other.files),
        )

    def of_part(self, part: str) -> tuple[Written, ...]:
        return tuple(file for file in self.files if file.name.startswith(f"{part}/"))


def chunk_name(number: int) -> str:
    return f"chunk_{number:05d}"


def audio_name(number: int) -> str:
    return f"audio_{number}"


THUMBNAIL = "thumbnail"
KEPT = "kept"
"""Of the qualities that were taken over from another generation as they are."""


def address(name: str) -> str:
    """Where it is, below the folder of its generation."""
    return f"{FOLDER}/{name}.json"


def write(generation: Path, name: str, manifest: Manifest) -> None:
    """Put the manifest in its place, at once and whole."""
    folder = generation / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{name}-", dir=folder)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(serial.to_json(manifest), file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(folder / f"{name}.json")
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(generation: Path, name: str) -> Manifest | None:
    """The manifest, or None when there is none that can be read."""
    try:
        return parse((generation / address(name)).read_bytes())
    except OSError:
        return None


def parse(data: bytes) -> Manifest | None:
    try:
        return serial.from_json(Manifest, json.loads(data))
    except (ValueError, KeyError, TypeError):
        return None


def intact(generation: Path, name: str, *, plan: str, parts: Collection[str]) -> Manifest | None:
    """The manifest, if it is of this plan, has all these parts, and every file is there byte for byte."""
    manifest = read(generation, name)
    if manifest is None or manifest.plan != plan or not set(parts) <= set(manifest.parts):
        return None
    return manifest if all(matches(generation, file) for file in manifest.files) else None


def complete(generation: Path, files: Iterable[Written]) -> bool:
    """Every file is there and has its size. Quick; the checksums are compared before publishing."""
    return all(_size(generation / file.name) == file.size for file in files)


def matches(folder: Path, file: Written) -> bool:
    """The file is in this folder, byte for byte."""
    path = folder / file.name
    if _size(path) != file.size:
        return False
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
