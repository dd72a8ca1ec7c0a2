"""Take over what an earlier generation has, so that only what is asked for or missing is encoded.

Two ways, and a transcode goes one of them:

- it repairs the generation that it is based on: each chunk and track is taken over where the plan is the same to the
  letter (so the bytes would be, too) and every file is as it was written;
- chosen qualities are encoded again (`kept_plan`): the others are taken over whole, as they are, by a job of their own,
  and so is the sound where it has all bitrates. Chunks are not: they are what was asked for.

Files are linked, not copied: nothing in a generation is ever changed in place, and each is removed without the other.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from videos import depot, keeping, manifests, storage
from videos.exceptions import PublishedDamaged
from videos.manifests import Manifest
from videos.media.encode import Written
from videos.media.plan import EncodePlan
from videos.models import Transcode

AT_ONCE = 50
"""Files that are taken over between two signs of life."""


def kept_plan_of(transcode: Transcode) -> EncodePlan | None:
    """The plan of the qualities that are taken over; None: there are none. ValueError: another version has made it."""
    return EncodePlan.from_json(transcode.kept_plan) if transcode.kept_plan else None


def whole_plan(transcode: Transcode) -> EncodePlan:
    """The plan of all that the transcode publishes. ValueError: there is none, or another version has made it."""
    own, kept = EncodePlan.from_json(transcode.plan or {}), kept_plan_of(transcode)
    return own.with_kept(kept) if kept else own


# -- chunk by chunk, track by track ----------------------------------------------------------------------------------


def take_over(transcode: Transcode, name: str, *, plan: str) -> Manifest | None:
    """The manifest of this name, with its files, from the generation that this one is based on."""
    base = _base_of(transcode)
    if base is None:
        return None
    if transcode.kept_plan is None:
        return _take(base, transcode, name, wanted=plan, plan=plan)
    track = next(
        (t for t in EncodePlan.from_json(transcode.plan or {}).audio if _is_of(t.number, name)), None
    )
    if track is None or base.frames_found:  # shorter sound has to be made for a shorter picture
        return None
    parts = tuple(track.folder(bitrate) for bitrate in track.bitrates)
    digest = EncodePlan.from_json(base.plan or {}).digest()
    return _take(base, transcode, name, wanted=digest, plan=plan, parts=parts)


def _is_of(track: int, name: str) -> bool:
    return manifests.audio_name(track) == name


def _base_of(transcode: Transcode) -> Transcode | None:
    if transcode.based_on is None:
        return None
    found: Transcode | None = Transcode.objects.filter(
        video=transcode.video_id, number=transcode.based_on
    ).first()
    return found


def _take(
    base: Transcode, transcode: Transcode, name: str, *, wanted: str, plan: str, parts: tuple[str, ...] = ()
) -> Manifest | None:
    """`wanted`: the plan that it was made by; `plan`: the one that it is for now. Only these parts, if given."""
    older, here = storage.generation(base), storage.generation(transcode)
    manifest = keeping.intact(older, name, plan=wanted, parts=parts)
    if manifest is None:
        return None
    if parts:
        files = tuple(file for part in parts for file in manifest.of_part(part))
        manifest = replace(manifest, parts=parts, files=files)
    manifest = replace(manifest, plan=plan)
    for file in manifest.files:
        _bring(older / file.name, here / file.name)
    keeping.commit(here, name, manifest)
    return manifest


# -- whole qualities -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Takeover:
    """The qualities that a transcode keeps, and where their files come from."""

    older: Path
    here: Path
    manifest: Manifest

    @property
    def batches(self) -> list[tuple[Written, ...]]:
        files = self.manifest.files
        return [files[first : first + AT_ONCE] for first in range(0, len(files), AT_ONCE)]

    def take(self, batch: tuple[Written, ...]) -> None:
        """Publishing compares the bytes; here, that each file is whole."""
        if not keeping.complete(self.older, batch):
            raise PublishedDamaged(self.manifest.parts)
        for file in batch:
            _bring(self.older / file.name, self.here / file.name)

    def commit(self) -> None:
        keeping.commit(self.here, manifests.KEPT, self.manifest)


def takeover_of(transcode: Transcode) -> Takeover:
    """Raises PublishedDamaged where the older generation has not all that is to be kept."""
    base, plan = _base_of(transcode), EncodePlan.from_json(transcode.plan or {})
    names = tuple(transcode.kept_qualities)
    if base is None or base.files_removed_at is not None:
        raise PublishedDamaged(names)
    older = storage.generation(base)
    files = {file.name: file for name in names for file in _files_of(older, base, name)}
    total = base.frames_found or plan.total_frames
    return Takeover(
        older,
        storage.generation(transcode),
        Manifest(plan=plan.digest(), frames=total, parts=names, files=tuple(files.values())),
    )


def _files_of(older: Path, base: Transcode, quality: str) -> Iterator[Written]:
    """What a generation has published of a quality: made by its own chunks, or taken over itself."""
    if quality in base.kept_qualities:
        kept = keeping.read_manifest(older, manifests.KEPT)
        if kept is None or quality not in kept.parts:
            raise PublishedDamaged([quality])
        yield from kept.of_part(quality)
        return
    plan = EncodePlan.from_json(base.plan or {})
    published = plan.shortened(base.frames_found) if base.frames_found else plan
    for chunk in published.chunks():
        made = keeping.read_manifest(older, manifests.chunk_name(chunk.number))
        if made is None or made.plan != plan.digest() or quality not in made.parts:
            raise PublishedDamaged([quality])
        yield from made.of_part(quality)


# -- one file --------------------------------------------------------------------------------------------------------


def _bring(there: Path, here: Path) -> None:
    kept = depot.current()
    if kept is not None:
        kept.copy(there, here)
        return
    here.parent.mkdir(parents=True, exist_ok=True)
    temporary = here.with_name(f".{here.name}.{os.getpid()}-{threading.get_ident()}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.hardlink_to(there)
    except OSError:  # not every file system has links
        shutil.copyfile(there, temporary)
    temporary.replace(here)
    temporary.unlink(missing_ok=True)  # a link to the same file is not moved by replacing itself
