"""Put a generation together: what really came out of the source, its captions and its playlists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from jobs import PermanentFailure
from videos import encoding, keeping, manifests, reusing
from videos.exceptions import NothingDecoded, TimelineDiffers
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
    """What is published: the plan as it came out, and the qualities that are there, with those that were kept."""

    own: EncodePlan
    """Of what this transcode has encoded: its manifests name this plan."""
    plan: EncodePlan
    qualities: tuple[str, ...]

    @classmethod
    def of(cls, bench: Workbench, own: EncodePlan) -> Assembly:
        kept = reusing.kept_plan_of(bench.transcode)
        plan = own.with_kept(kept) if kept else own
        there = {*bench.qualities(), *bench.transcode.kept_qualities}
        return cls(own, plan, tuple(r.name for r in plan.renditions if r.name in there))


@dataclass(frozen=True)
class Gaps:
    """What must be made anew before everything fits together."""

    assembly: Assembly
    encoded: tuple[str, ...]
    """The qualities that this transcode encodes itself."""
    holes: tuple[int, ...]
    """Chunks with fewer frames than planned, although others follow."""
    sounds: tuple[int, ...]
    """Tracks that are longer than the picture: the source breaks off."""

    @property
    def are_none(self) -> bool:
        return not (self.holes or self.sounds)


def assemble(bench: Workbench) -> None:
    """Write the playlists of everything that has been encoded."""
    bench.gather()
    write(bench, settle(bench))


def settle(bench: Workbench) -> Assembly:
    """The plan that fits what came out: holes are filled, and a source that breaks off gives a shorter one."""
    gaps = find_gaps(bench)
    note_length(bench, gaps)
    for number in gaps.holes:
        encoding.fill_hole(bench, bench.plan, number, list(gaps.encoded))
    for number in gaps.sounds:
        encoding.write_audio(bench, gaps.assembly.own, number)
    return gaps.assembly


def find_gaps(bench: Workbench) -> Gaps:
    plan, qualities = bench.plan, bench.qualities()
    if not qualities:
        raise PermanentFailure(
            "No quality is left: each of them has failed. The errors are with the qualities."
        )
    counts = chunk_lengths(bench, plan)
    chunks = plan.chunks()[: len(counts) - 1]
    holes = tuple(chunk.number for chunk in chunks if counts[chunk.number - 1] != chunk.frames)
    total = frames_found(plan, counts)
    _refuse_other_length(bench, total)
    if total == plan.total_frames:
        return Gaps(Assembly.of(bench, plan), qualities, holes, ())
    shorter = plan.shortened(total)
    sounds = tuple(track.number for track in shorter.audio if not _has_sound(bench, shorter, track.number))
    return Gaps(Assembly.of(bench, shorter), qualities, holes, sounds)


def _refuse_other_length(bench: Workbench, total: int) -> None:
    """All renditions of a version end with the same picture."""
    if bench.transcode.kept_plan is not None:
        kept = _kept_manifest(bench)
        if kept.frames != total:
            raise TimelineDiffers(found=total, kept=kept.frames)


def _has_sound(bench: Workbench, plan: EncodePlan, number: int) -> bool:
    made = manifests.read(bench.generation, manifests.audio_name(number))
    return made is not None and made.plan == plan.digest()


def note_length(bench: Workbench, gaps: Gaps) -> None:
    """Of a source that breaks off: it is published as long as it is."""
    frames = gaps.assembly.plan.total_frames
    if frames != bench.plan.total_frames:
        Transcode.objects.filter(pk=bench.transcode.pk).update(frames_found=frames)


def write(bench: Workbench, assembly: Assembly, *, read: finish.Read = finish.read_folder) -> None:
    captions = _write_captions(bench, assembly.plan)
    written = finish.write_playlists(
        assembly.plan, bench.generation, qualities=assembly.qualities, captions=captions, read=read
    )
    listed = [bench.generation / one.uri for one in captions]
    keeping.keep([*(path.with_suffix(".vtt") for path in listed), *listed, *written])


def chunk_lengths(bench: Workbench, plan: EncodePlan) -> list[int]:
    """How many frames came out of each chunk, up to the last one that has any."""
    counts = [manifest.frames for manifest in chunk_manifests(bench, plan)]
    while counts and not counts[-1]:
        counts.pop()
    if not counts:
        raise NothingDecoded
    return counts


def frames_found(plan: EncodePlan, counts: list[int]) -> int:
    """All frames of the chunks before the last one, and those that came out of it."""
    return plan.chunk(len(counts)).first_frame + counts[-1]


def decoded_plan(bench: Workbench) -> EncodePlan:
    """The plan as far as there are pictures, with the qualities that are there."""
    plan = bench.plan
    shorter = plan.shortened(frames_found(plan, chunk_lengths(bench, plan)))
    assembly = Assembly.of(bench, shorter)
    there = tuple(r for r in assembly.plan.renditions if r.name in assembly.qualities)
    return replace(assembly.plan, renditions=there)


def published_plan(transcode: Transcode) -> EncodePlan:
    """The plan of all that is published, as it came out."""
    plan = reusing.whole_plan(transcode)
    return plan.shortened(transcode.frames_found) if transcode.frames_found else plan


def own_plan(bench: Workbench) -> EncodePlan:
    """The plan of what this transcode has encoded itself, as it came out."""
    found = bench.transcode.frames_found
    return bench.plan.shortened(found) if found else bench.plan


def chunk_manifests(bench: Workbench, plan: EncodePlan) -> list[Manifest]:
    """The manifest of each chunk; ChunkRefused where one is missing."""
    return [
        _needed(bench, manifests.chunk_name(chunk.number), bench.plan.digest()) for chunk in plan.chunks()
    ]


def audio_manifests(bench: Workbench, plan: EncodePlan) -> list[Manifest]:
    return [_needed(bench, manifests.audio_name(track.number), plan.digest()) for track in plan.audio]


def files_of(bench: Workbench, assembly: Assembly) -> Iterable[Written]:
    """Every media file of the assembly, with the checksum it was written with."""
    for manifest in chunk_manifests(bench, assembly.own):
        for quality in assembly.qualities:
            yield from manifest.of_part(quality)
    for manifest in audio_manifests(bench, assembly.own):
        yield from manifest.files
    if bench.transcode.kept_plan is not None:
        yield from _kept_manifest(bench).files


def _kept_manifest(bench: Workbench) -> Manifest:
    return _needed(bench, manifests.KEPT, bench.plan.digest())


def _needed(bench: Workbench, name: str, digest: str) -> Manifest:
    manifest = manifests.read(bench.generation, name)
    if manifest is None or manifest.plan != digest:
        raise ChunkRefused(
            f"{name} is recorded as done but is not there; `manage.py reconcile` queues it again."
        )
    return manifest


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
