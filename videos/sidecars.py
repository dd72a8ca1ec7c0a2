"""Subtitle files beside a video: film.en.srt and film.pt-BR.vtt belong to film.mp4."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from videos.exceptions import UploadRefused
from videos.local_files import open_file
from videos.media.webvtt import MOST_BYTES
from videos.subtitling import UNKNOWN, Captions

SUFFIXES = (".srt", ".vtt")
_IN_A_NAME = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
"""Stricter than a language may be: film.final.srt is not in the language "final"."""
_AFTER_A_COLON = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


@dataclass(frozen=True)
class Sidecar:
    path: Path
    language: str

    def read(self) -> Captions:
        """What it holds, made safe; raises UploadRefused."""
        try:
            with open_file(self.path) as file:
                data = file.read(MOST_BYTES + 1)  # enough to know that it is too large
            return Captions.of(data, language=self.language)
        except UploadRefused as refusal:
            raise UploadRefused(f"{self.path.name}: {refusal}", code=refusal.code) from refusal


def named(text: str) -> Sidecar:
    """FILE or FILE:LANGUAGE, as somebody has typed it. Without a language, the one in the file's name."""
    name, colon, language = text.rpartition(":")
    if colon and name and _AFTER_A_COLON.fullmatch(language):
        return Sidecar(Path(name), language)
    path = Path(text)
    return Sidecar(path, _language_in(path.stem.rpartition(".")[2] if "." in path.stem else ""))


def beside(video: Path) -> list[Sidecar]:
    """The subtitle files that bear the video's name, one per language."""
    found: dict[str, Sidecar] = {}
    for path in sorted(_bearing_its_name(video)):
        middle = path.stem[len(video.stem) :].removeprefix(".")
        if not middle or _IN_A_NAME.fullmatch(middle):
            sidecar = Sidecar(path, _language_in(middle))
            found.setdefault(sidecar.language.lower(), sidecar)
    return list(found.values())


def _bearing_its_name(video: Path) -> Iterator[Path]:
    try:
        names = list(video.parent.iterdir())
    except OSError:
        return
    for path in names:
        belongs = path.stem == video.stem or path.stem.startswith(f"{video.stem}.")
        if belongs and path.suffix.lower() in SUFFIXES and path.is_file():
            yield path


def _language_in(word: str) -> str:
    return word if _IN_A_NAME.fullmatch(word) else UNKNOWN
