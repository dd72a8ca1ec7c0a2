"""Check what is on disk against the plan, before it is published.

Everything is read (so checksums are right) and every timestamp added up, but nothing is decoded: this is for
every transcode. tests/support/videos/conformance.py decodes too.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

from videos.media import boxes, playlists
from videos.media.boxes import BadBoxes
from videos.media.encode import INIT, Written, segment_name
from videos.media.exceptions import NotConformant
from videos.media.finish import MASTER, PLAYLIST
from videos.media.headers import track_header
from videos.media.plan import AAC_FRAME, SAMPLE_RATE, EncodePlan, RenditionPlan

BATCH = 256 << 20
MOST_IN_A_BATCH = 500
HALF_MICROSECOND = Fraction(1, 2_000_000)


def verify(
    plan: EncodePlan, folder: Path, *, files: Iterable[Written] = (), qualities: Sequence[str] | None = None
) -> None:
    """Check a whole transcode: media, playlists and, for those given, checksums. Raises NotConformant."""
    problems = [
        problem for check in checks(plan, folder, files=files, qualities=qualities) for problem in check()
    ]
    if problems:
        raise NotConformant(problems)


Check = Callable[[], Iterable[str]]


def checks(
    plan: EncodePlan, folder: Path, *, files: Iterable[Written] = (), qualities: Sequence[str] | None = None
) -> list[Check]:
    """All of it, in pieces of some seconds each."""
    chosen = [r for r in plan.renditions if qualities is None or r.name in qualities]
    bitrates = sorted({rendition.audio_bitrate for rendition in chosen})
    found: list[Check] = []
    for rendition in chosen:
        own = folder / rendition.name
        found += [
            partial(check_picture, plan, rendition, own),
            partial(check_playlist, own, plan.total_segments),
        ]
    for track in plan.audio:
        for bitrate in bitrates:
            own = folder / track.folder(bitrate)
            found += [partial(check_sound, plan, own), partial(check_playlist, own, plan.audio_segments)]
    found.append(partial(check_master, plan, folder, chosen))
    return [*found, *(partial(check_files, folder, some) for some in _batches(files))]


def _batches(files: Iterable[Written]) -> Iterator[list[Written]]:
    batch: list[Written] = []
    for file in files:
        batch.append(file)
        if sum(one.size for one in batch) >= BATCH or len(batch) >= MOST_IN_A_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def check_files(folder: Path, files: Iterable[Written]) -> list[str]:
    """The files whose bytes are not those that were written."""
    problems = []
    for file in files:
        path = folder / file.name
        if not path.is_file():
            problems.append(f"{file.name} is missing")
        elif path.stat().st_size != file.size or _sha256(path) != file.sha256:
            problems.append(f"{file.name} is not as it was written")
    return problems


def check_picture(plan: EncodePlan, rendition: RenditionPlan, folder: Path) -> Iterator[str]:
    """Every frame in its place, every segment with one keyframe, which comes first."""
    try:
        header = track_header((folder / INIT).read_bytes())
    except (OSError, BadBoxes) as error:
        yield f"{folder.name}/{INIT}: {error}"
        return
    if (header.width, header.height) != (rendition.width, rendition.height):
        yield f"{folder.name} is {header.width}×{header.height}, not {rendition.width}×{rendition.height}"
    if header.timescale != plan.timescale:
        yield f"{folder.name} counts {header.timescale} ticks a second, not {plan.timescale}"
    for number in range(1, plan.total_segments + 1):
        start = (number - 1) * plan.segment_frames
        length = plan.segment_length(number)
        for fragment in _segment(folder, number):
            if isinstance(fragment, str):
                yield fragment
                continue
            yield from _check_timeline(
                f"{folder.name}/{segment_name(number)}",
                fragment,
                starts=start * plan.frame_ticks,
                each=plan.frame_ticks,
                count=length,
                shown_after=plan.reorder * plan.frame_ticks,
            )
            if [sample.keyframe for sample in fragment.samples] != [True] + [False] * (length - 1):
                yield f"{folder.name}/{segment_name(number)} has keyframes elsewhere than at its start"


def check_sound(plan: EncodePlan, folder: Path) -> Iterator[str]:
    """Every AAC frame in its place."""
    try:
        header = track_header((folder / INIT).read_bytes())
    except (OSError, BadBoxes) as error:
        yield f"{folder.name}/{INIT}: {error}"
        return
    if header.timescale != SAMPLE_RATE:
        yield f"{folder.name} counts {header.timescale} ticks a second, not {SAMPLE_RATE}"
    for number in range(1, plan.audio_segments + 1):
        frames = plan.audio_segment(number)
        for fragment in _segment(folder, number):
            if isinstance(fragment, str):
                yield fragment
                continue
            yield from _check_timeline(
                f"{folder.name}/{segment_name(number)}",
                fragment,
                starts=plan.audio_zero + frames.start * AAC_FRAME,
                each=AAC_FRAME,
                count=len(frames),
                shown_after=0,
            )


def _segment(folder: Path, number: int) -> Iterator[boxes.Fragment | str]:
    path = folder / segment_name(number)
    name = f"{folder.name}/{path.name}"
    try:
        fragments = list(boxes.fragments(path.read_bytes()))
    except FileNotFoundError:
        yield f"{name} is missing"
        return
    except (BadBoxes, OSError) as error:
        yield f"{name}: {error}"
        return
    if len(fragments) != 1:
        yield f"{name} has {len(fragments)} fragments instead of one"
        return
    if fragments[0].sequence != number:
        yield f"{name} says it is number {fragments[0].sequence}"
    yield fragments[0]


def _check_timeline(
    name: str, fragment: boxes.Fragment, *, starts: int, each: int, count: int, shown_after: int
) -> Iterator[str]:
    if fragment.decode_time != starts:
        yield f"{name} starts at {fragment.decode_time}, not at {starts}"
    if len(fragment.samples) != count:
        yield f"{name} has {len(fragment.samples)} frames, not {count}"
    if any(sample.duration != each for sample in fragment.samples):
        yield f"{name} has frames that last longer or shorter than {each}"
    elif sorted(fragment.shown_at()) != [
        fragment.decode_time + shown_after + i * each for i in range(len(fragment.samples))
    ]:
        yield f"{name} shows a frame at the wrong moment"


def check_playlist(folder: Path, segments: int) -> Iterator[str]:
    """The playlist parses, names every segment, and each EXTINF is the media's own duration."""
    name = f"{folder.name}/{PLAYLIST}"
    try:
        listed = playlists.parse_media((folder / PLAYLIST).read_text(encoding="utf-8"))
        header = track_header((folder / INIT).read_bytes())
    except (OSError, ValueError, BadBoxes) as error:
        yield f"{name}: {error}"
        return
    if [uri for uri, _ in listed.segments] != [segment_name(n) for n in range(1, segments + 1)]:
        yield f"{name} does not list segments 1 to {segments}"
    if listed.init != INIT or not listed.ended:
        yield f"{name} has no {INIT} or no end"
    for uri, duration in listed.segments:
        if int(duration + Fraction(1, 2)) > listed.target_duration:
            yield f"{name}: {uri} is longer than the target duration"
        try:
            ticks = sum(fragment.duration for fragment in boxes.fragments((folder / uri).read_bytes()))
        except (OSError, BadBoxes):
            continue  # reported with the media
        if abs(duration - Fraction(ticks, header.timescale)) > HALF_MICROSECOND:
            yield f"{name}: EXTINF of {uri} is {float(duration)}, its media lasts {ticks / header.timescale}"


def check_master(plan: EncodePlan, folder: Path, chosen: Sequence[RenditionPlan]) -> Iterator[str]:
    """Every variant is there with the codecs that its files have."""
    try:
        variants, media = playlists.parse_master((folder / MASTER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        yield f"{MASTER}: {error}"
        return
    if list(variants) != [f"{rendition.name}/{PLAYLIST}" for rendition in chosen]:
        yield f"{MASTER} lists {', '.join(variants) or 'nothing'}"
    for uri, said in variants.items():
        sounds = [line["URI"] for line in media if line.get("GROUP-ID") == said.get("AUDIO", "-")]
        if bool(sounds) != bool(plan.audio):
            yield f"{MASTER}: {uri} has {len(sounds)} sound tracks"
        try:
            real = {
                track_header((folder / path).with_name(INIT).read_bytes()).codec for path in (uri, *sounds)
            }
        except (OSError, BadBoxes):
            continue  # reported with the media
        if set(said.get("CODECS", "").split(",")) != real:
            yield f"{MASTER}: CODECS of {uri} is {said.get('CODECS')}, its files have {', '.join(sorted(real))}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
