"""Put a finished transcode together: read what is on disk, write its playlists."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from videos.media import boxes, playlists
from videos.media.encode import INIT, segment_name
from videos.media.headers import track_header
from videos.media.plan import AudioPlan, EncodePlan
from videos.media.playlists import Captions, Rendition, Segment, Sound, Variant

PLAYLIST = "playlist.m3u8"
MASTER = "master.m3u8"


def read_rendition(folder: Path, *, segments: int) -> Rendition:
    """What is in a rendition's folder: codec, sizes and durations from the media itself."""
    header = track_header((folder / INIT).read_bytes())
    found = []
    for number in range(1, segments + 1):
        path = folder / segment_name(number)
        ticks = sum(fragment.duration for fragment in boxes.fragments(path.read_bytes()))
        found.append(
            Segment(name=path.name, duration=Fraction(ticks, header.timescale), size=path.stat().st_size)
        )
    return Rendition(
        name=folder.name,
        codec=header.codec,
        segments=tuple(found),
        width=header.width,
        height=header.height,
    )


Read = Callable[[Path, int], Rendition]
"""A folder, and how many segments it has."""


def read_folder(folder: Path, segments: int) -> Rendition:
    return read_rendition(folder, segments=segments)


def folders_of(plan: EncodePlan, qualities: Collection[str]) -> dict[str, int]:
    """The folders of what is published in these qualities, picture and sound, and how many segments each has."""
    chosen = [rendition for rendition in plan.renditions if rendition.name in qualities]
    bitrates = {rendition.audio_bitrate for rendition in chosen}
    sounds = [track.folder(rate) for track in plan.audio for rate in track.bitrates if rate in bitrates]
    return {
        **{rendition.name: plan.total_segments for rendition in chosen},
        **dict.fromkeys(sounds, plan.audio_segments),
    }


def write_playlists(
    plan: EncodePlan,
    folder: Path,
    *,
    qualities: Sequence[str] | None = None,
    captions: Sequence[Captions] = (),
    read: Read = read_folder,
) -> list[Path]:
    """Write every media playlist and the master below `folder`; all qualities, or only those named."""
    variants, sounds, written = [], [], []
    for wanted in plan.renditions:
        if qualities is None or wanted.name in qualities:
            rendition = replace(read(folder / wanted.name, plan.total_segments), frame_rate=plan.frame_rate)
            written.append(
                _write(folder / wanted.name / PLAYLIST, playlists.media_playlist(rendition.segments))
            )
            group = f"audio_{wanted.audio_bitrate // 1000}k" if plan.audio else ""
            variants.append(Variant(rendition=rendition, audio_group=group))
    groups = {variant.audio_group for variant in variants}
    for track in plan.audio:
        for bitrate in track.bitrates:
            group = f"audio_{bitrate // 1000}k"
            if group in groups:
                rendition = read(folder / track.folder(bitrate), plan.audio_segments)
                written.append(
                    _write(folder / rendition.name / PLAYLIST, playlists.media_playlist(rendition.segments))
                )
                sounds.append(
                    Sound(
                        rendition=rendition,
                        group=group,
                        label=track_label(plan, track),
                        language=track.language,
                        default=track.default,
                        channels=track.channels,
                    )
                )
    sounds.sort(key=lambda sound: sound.group)
    written.append(
        _write(folder / MASTER, playlists.master_playlist(variants, sounds=sounds, captions=captions))
    )
    return written


def track_label(plan: EncodePlan, track: AudioPlan) -> str:
    """A name that no other track of the group has."""
    label = track.title or track.language or f"Track {track.number}"
    others = [t.title or t.language or f"Track {t.number}" for t in plan.audio if t.number != track.number]
    return f"{label} ({track.number})" if label in others else label


def _write(path: Path, text: str) -> Path:
    """All or nothing: a reader never sees half a playlist."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return path
