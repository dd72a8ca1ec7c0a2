"""Put a generation together: what really came out of the source, its captions and its playlists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from jobs import PermanentFailure
from videos import encoding, keeping, manifests
from videos.manifests import Manifest
from videos.media import finish, playlists, webvtt
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
    bench.gather()
    assembly = settle(bench)
    captions = _write_captions(bench, assembly.plan)
    written = finish.write_playlists(
        assembly.plan, bench.generation, qualities=assembly.qualities, captions=captions
    )
    listed = [bench.generation / one.uri for one in captions]
    keeping.keep([*(path.with_suffix(".vtt") for path in listed), *listed, *written])
    return assembly


def settle(bench: Workbench) -> Assembly:
    """The plan that fits what came out: holes are filled, and a source that breaks off gives a shorter one."""
    plan, qualities = bench.plan, bench.qualities()
    if not qualities:
        raise PermanentFailure(
            "No quality is left: each of them has failed. The errors are with the qualities."
        )
    counts = chunk_lengths(bench, plan)
    for number, planned in enumerate((chunk.frames for chunk in plan.chunks()), start=1):
        if number < len(counts) and counts[number - 1] != planned:
            encoding.fill_hole(bench, plan, number, list(qualities))
    total = frames_found(plan, counts)
    if total == plan.total_frames:
        return Assembly(plan, qualities)
    return Assembly(_shorten(bench, plan, total), qualities)


def chunk_lengths(bench: Workbench, plan: EncodePlan) -> list[int]:
    """How many frames came out of each chunk, up to the last one that has any."""
    counts = [manifest.frames for manifest in chunk_manifests(bench, plan)]
    while counts and not counts[-1]:
        counts.pop()
    if not counts:
        raise PermanentFailure("Not one picture of the source could be decoded.")
    return counts


def frames_found(plan: EncodePlan, counts: list[int]) -> int:
    """All frames of the chunks before the last one, and those that came out of it."""
    return plan.chunk(len(counts)).first_frame + counts[-1]


def decoded_plan(bench: Workbench) -> EncodePlan:
    """The plan as far as there are pictures, with the qualities that are there."""
    plan = bench.plan
    shorter = plan.shortened(frames_found(plan, chunk_lengths(bench, plan)))
    return replace(shorter, renditions=tuple(r for r in plan.renditions if r.name in bench.qualities()))


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
        cues = webvtt.read_captions(subtitle.webvtt.encode())
        (folder / f"{name}.vtt").write_text(webvtt.write_webvtt(cues, zero=plan.zero), encoding="utf-8")
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
