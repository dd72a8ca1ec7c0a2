"""A watched folder: what is put there becomes a video, once nobody writes to it any more.

FOLDER/film.mp4, FOLDER/film.en.srt     → FOLDER/added/      when it is a video
FOLDER/letter.pdf                       → FOLDER/refused/    with letter.pdf.txt, which says why

Nothing is remembered elsewhere. Should we die between adding and moving, the next look finds the file again, and
intake says that it is there already.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from videos import sidecars
from videos.exceptions import NotNow, UploadRefused
from videos.found_files import may_be_video
from videos.models import Video
from videos.sidecars import Sidecar
from videos.subtitling import Captions

ADDED, REFUSED = "added", "refused"

Add = Callable[[Path, Sequence[Captions]], Video]
Look = tuple[tuple[str, int, int], ...]
"""Name, size and time of change of a file and of its subtitles."""


@dataclass(frozen=True)
class Outcome:
    """What became of a file."""

    path: Path
    video: Video | None = None
    reason: str = ""
    later: bool = False
    """It stays where it is, and is tried again."""


class WatchedFolder:
    def __init__(self, folder: Path, add: Add, *, settle: float) -> None:
        self.folder = folder
        self._add = add
        self._settle = settle
        self._seen: dict[Path, tuple[Look, float]] = {}

    @property
    def is_quiet(self) -> bool:
        """Nothing was there at the last look that is still to be handled."""
        return not self._seen

    def look(self, now: float) -> Iterator[Outcome]:
        """Handle what has not changed for `settle` seconds. `now` is any clock that never goes back."""
        present = list(self._videos())
        self._seen = {path: seen for path, seen in self._seen.items() if path in present}
        for path in present:
            if self._has_settled(path, now):
                yield self._handle(path)

    def _videos(self) -> Iterator[Path]:
        return filter(may_be_video, sorted(self.folder.iterdir()))

    def _has_settled(self, path: Path, now: float) -> bool:
        try:
            files = [path, *(sidecar.path for sidecar in sidecars.beside(path))]
            look = tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
        except FileNotFoundError:
            return False
        before, since = self._seen.get(path, (None, now))
        if look != before:
            since = now
        self._seen[path] = (look, since)
        return now - since >= self._settle

    def _handle(self, path: Path) -> Outcome:
        self._seen.pop(path)
        beside = sidecars.beside(path)
        files = [path, *(sidecar.path for sidecar in beside)]
        captions, complaints = _read(beside)
        try:
            video = self._add(path, captions)
        except NotNow as refusal:
            return Outcome(path, reason=str(refusal), later=True)
        except UploadRefused as refusal:
            self._move(files, REFUSED, why=str(refusal))
            return Outcome(path, reason=str(refusal))
        self._move(files, ADDED)
        return Outcome(path, video, reason=" ".join(complaints))

    def _move(self, files: Sequence[Path], place: str, *, why: str = "") -> None:
        """Out of the way, under names that are free there."""
        folder = self.folder / place
        folder.mkdir(exist_ok=True)
        for path in files:
            target = _free(folder / path.name)
            with contextlib.suppress(FileNotFoundError):  # somebody has taken it away
                path.rename(target)
                if why and path == files[0]:
                    target.with_name(f"{target.name}.txt").write_text(f"{why}\n", encoding="utf-8")


def _free(path: Path) -> Path:
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(name for name in itertools.chain([path], names) if not name.exists())


def _read(beside: Sequence[Sidecar]) -> tuple[list[Captions], list[str]]:
    captions, complaints = [], []
    for sidecar in beside:
        try:
            captions.append(sidecar.read())
        except UploadRefused as refusal:
            complaints.append(f"Subtitles are left out: {refusal}")
    return captions, complaints
