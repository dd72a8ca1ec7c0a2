"""Put a generation together: what really came out of the source, its captions and its playlists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobs import PermanentFailure
from videos import encoding, manifests
from videos.manifests import Manifest
from videos.media import finish, playlists
from videos.media.encode import Written
from videos.media.exceptions import ChunkRefused
from videos.media.plan import EncodePlan
from videos.media.playlists import Captions
from videos.models import Transcode
from videos.workbench import Workbench


@dataclass(frozen=True)
class Assembly:
    """What is published: the plan as it came out, and the qualities that are there."""

    plan: EncodePlan
    qualities: tuple[str, ...]


def assemble(bench: Workbench) -> Assembly:
    """Write the playlists of everything that has been encoded."""
    assembly = settle(bench)
    finish.write_playlists(
        assembly.plan,
        bench.generation,
        qualities=assembly.qualities,
        captions=_write_captions(bench, assembly.plan),
    )
    return assembly


def settle(bench: Workbench) -> Assembly:
    """The plan that fits what came out: holes are filled, and a source that breaks off gives a shorter one."""
    plan, given_up = bench.plan, bench.given_up()
    qualities = tuple(r.name for r in plan.renditions if r.name not in given_up)
    if not qualities:
        raise PermanentFailure(
            "No quality is left: each of them has failed. The errors are with the qualities."
        )
    frames = [chunk.frames for chunk in chunk_manifests(bench, plan)]
    full = [chunk.frames for chunk in plan.chunks()]
    last = max((index for index, count in enumerate(frames) if count), default=-1)
    if last < 0:
        raise PermanentFailure("Not one picture of the source could be decoded.")
    for index in range(last):
        if frames[index] != full[index]:
            encoding.fill_hole(bench, plan, index + 1, list(qualities))
    total = sum(full[:last]) + frames[last]
    if total == plan.total_frames:
        return Assembly(plan, qualities)
    return Assembly(_shorten(bench, plan, total), qualities)


def published_plan(transcode: Transcode) -> EncodePlan:
    """The plan as it came out."""
    plan = EncodePlan.from_json(transcode.plan or {})
    return plan.shortened(transcode.frames_found) if transcode.frames_found else plan


def chunk_manifests(bench: Workbench, plan: EncodePlan) -> list[Manifest]:
    """The manifest of each chunk; ChunkRefused where one is missing."""
    return [
        _needed(bench, manifests.chunk_name(chunk.number), bench.plan.digest()) for chunk in plan.chunks()
    ]


def audio_manifests(bench: Workbench, plan: EncodePlan) -> list[Manifest]:
    return [_needed(bench, manifests.audio_name(track.number), plan.digest()) for track in plan.audio]


def files_of(bench: Workbench, assembly: Assembly) -> Iterable[Written]:
    """Every media file of the assembly, with the checksum it was written with."""
    for manifest in chunk_manifests(bench, assembly.plan):
        for quality in assembly.qualities:
            yield from manifest.of_part(quality)
    for manifest in audio_manifests(bench, assembly.plan):
        yield from manifest.files


def _needed(bench: Workbench, name: str, digest: str) -> Manifest:
    manifest = manifests.read(bench.generation, name)
    if manifest is None or manifest.plan != digest:
        raise ChunkRefused(
            f"{name} is recorded as done but is not there; `manage.py reconcile` queues it again."
        )
    return manifest


def _shorten(bench: Workbench, plan: EncodePlan, frames: int) -> EncodePlan:
    """The source broke off: the sound ends with the picture."""
    shorter = plan.shortened(frames)
    Transcode.objects.filter(pk=bench.transcode.pk).update(frames_found=frames)
    for track in shorter.audio:
        made = manifests.read(bench.generation, manifests.audio_name(track.number))
        if made is None or made.plan != shorter.digest():
            encoding.write_audio(bench, shorter, track.number)
    return shorter


def _write_captions(bench: Workbench, plan: EncodePlan) -> list[Captions]:
    """The subtitles that are stored by now, as files of this generation."""
    folder = bench.generation / "captions"
    found = []
    for subtitle in bench.transcode.video.subtitles.all():
        folder.mkdir(parents=True, exist_ok=True)
        name = subtitle.file_name
        (folder / f"{name}.vtt").write_text(subtitle.webvtt, encoding="utf-8")
        (folder / f"{name}.m3u8").write_text(
            playlists.captions_playlist(f"{name}.vtt", plan.duration), encoding="utf-8"
        )
        found.append(
            Captions(
                label=subtitle.label or subtitle.language,
                language="" if subtitle.language == "und" else subtitle.language,
                uri=f"captions/{name}.m3u8",
            )
        )
    return found
