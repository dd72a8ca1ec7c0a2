"""Which files a job of the pipeline makes, and what must be in them: pure policy, for jobs that run elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from jobs.remote_work import FileRefused
from videos import manifests
from videos.manifests import Manifest
from videos.media import foreign, serial
from videos.media.encode import INIT, segment_name
from videos.media.plan import AAC_FRAME, EncodePlan

LARGEST_INIT = 64 * 1024
SLACK = 1 << 20
MANIFEST_LINE = 300
"""Bytes of a manifest for each file that it may list."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LARGEST_NUMBER = 2**53


@dataclass(frozen=True)
class Segment:
    number: int
    decode_time: int
    samples: int
    """Of the whole segment; one at the end of a source may have fewer."""


@dataclass(frozen=True)
class Expected:
    """The files of one job: folders with an initialisation segment and media segments, and a manifest."""

    plan: EncodePlan
    manifest: str
    folders: dict[str, int]
    """Each with the highest bitrate that it may have."""
    segments: tuple[Segment, ...]
    is_sound: bool

    @classmethod
    def of_chunk(cls, plan: EncodePlan, number: int) -> Expected:
        times = [
            Segment(n, (n - 1) * plan.segment_frames * plan.frame_ticks, plan.segment_length(n))
            for n in plan.chunk(number).segments
        ]
        folders = {r.name: r.maxrate + r.bufsize for r in plan.renditions}
        return cls(plan, manifests.chunk_name(number), folders, tuple(times), is_sound=False)

    @classmethod
    def of_track(cls, plan: EncodePlan, number: int) -> Expected:
        track = next(track for track in plan.audio if track.number == number)
        times = [
            Segment(n, plan.audio_zero + wanted.start * AAC_FRAME, len(wanted))
            for n in range(1, plan.total_segments + 1)
            if (wanted := plan.audio_segment(n))
        ]
        folders = {track.folder(bitrate): bitrate for bitrate in track.bitrates}
        return cls(plan, manifests.audio_name(number), folders, tuple(times), is_sound=True)

    @property
    def address(self) -> str:
        return manifests.address(self.manifest)

    @cached_property
    def _by_name(self) -> dict[str, Segment]:
        return {segment_name(segment.number): segment for segment in self.segments}

    def limit(self, name: str) -> int | None:
        """The largest size of a file; None: it is none of this job's."""
        if name == self.address:
            return SLACK + MANIFEST_LINE * len(self.folders) * (len(self.segments) + 1)
        folder, _, file = name.partition("/")
        if folder not in self.folders:
            return None
        if file == INIT:
            return LARGEST_INIT
        if file not in self._by_name:
            return None
        seconds = Fraction(self.plan.segment_frames) / self.plan.frame_rate
        return SLACK + int(4 * self.folders[folder] * seconds / 8)

    def check_content(self, name: str, path: Path) -> None:
        """Of an initialisation or media segment. Raises FileRefused."""
        file = name.partition("/")[2]
        try:
            if file == INIT:
                foreign.check_init(path)
            else:
                wanted = self._by_name[file]
                foreign.check_media(
                    path, number=wanted.number, decode_time=wanted.decode_time, longest=wanted.samples
                )
        except foreign.NotASegment as problem:
            raise FileRefused(f"{name} is not what its name says: {problem}.") from None

    # -- the manifest --------------------------------------------------------------------------------------------------

    def read_manifest(self, path: Path) -> Manifest:
        """What the job says it has made. Raises FileRefused for everything that its files could not be."""
        try:
            manifest = serial.from_json(Manifest, json.loads(path.read_bytes()))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise FileRefused(f"{self.address} is not a manifest.") from None
        problem = self._problem(manifest)
        if problem:
            raise FileRefused(f"{self.address}: {problem}.")
        return manifest

    def _problem(self, manifest: Manifest) -> str:
        if manifest.plan != self.plan.digest():
            return "it is of another plan"
        if not _is_number(manifest.frames):
            return "frames is not a number of frames"
        if not {*map(str, manifest.parts)} <= {*self.folders}:
            return "it has parts that this job does not make"
        names = [str(file.name) for file in manifest.files]
        if len({*manifest.parts}) < len(manifest.parts) or len({*names}) < len(names):
            return "it lists a part or a file twice"
        for file in manifest.files:
            if not (_is_number(file.size) and _SHA256.fullmatch(str(file.sha256))):
                return f"{file.name[:100]!r} has no size or no checksum"
        numbers = self._numbers(manifest.frames)
        if numbers is None:
            return f"this job cannot make {manifest.frames:,} frames"
        needed = self._needed(manifest.parts, numbers)
        if {*names} != needed:
            wrong = sorted({*names} ^ needed)[0][:100]
            return f"{wrong!r} is {'listed, but not' if wrong in names else 'not listed, but'} of these parts"
        return ""

    def _numbers(self, frames: int) -> list[int] | None:
        """The segments that so many frames fill: a source that ends early has fewer, or none. None: that cannot be."""
        if self.is_sound:
            whole = frames == self.plan.audio_frames
            return [segment.number for segment in self.segments] if whole else None
        numbers = []
        for segment in self.segments:
            if frames > 0:
                numbers.append(segment.number)
                frames -= segment.samples
        return numbers if frames <= 0 else None

    def _needed(self, parts: Collection[str], numbers: list[int]) -> set[str]:
        files = [INIT, *map(segment_name, numbers)] if numbers else []
        return {f"{part}/{file}" for part in parts for file in files}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_NUMBER
