"""A poster, and a storyboard for the player's seek bar, from keyframes that are already encoded.

Every segment of a finished rendition starts with a keyframe, so one picture per segment is decoded and nothing
else: some milliseconds each. Other machines may have made it, so that happens in a process of its own, and what it
makes is looked at as everybody's. PyAV is loaded there only: web servers ask this module for names.
"""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from videos.media import contained, jpeg
from videos.media.contained import Bounds, Broken
from videos.media.encode import INIT, Written, segment_name, written
from videos.media.exceptions import MediaError
from videos.media.plan import EncodePlan, RenditionPlan
from videos.media.scratch import scratch_folder
from videos.media.webvtt import timestamp

POSTER = "poster.jpg"
STORYBOARD = "storyboard.vtt"
COLUMNS = ROWS = 10
TILE = 160
"""The longer side of a tile."""
MOST_TILES = 400
CANDIDATES = 12
"""Keyframes among which the poster is chosen."""
MEMORY = 4 << 30
"""Address space of the process that decodes."""
SECONDS = 600.0
LARGEST_PICTURE = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Thumbnails:
    """What was made, below the folder that was asked for."""

    poster: Written
    storyboard: Written
    sheets: tuple[Written, ...]


@dataclass(frozen=True)
class Sheet:
    """One file of the storyboard: the first pictures of these segments, side by side."""

    name: str
    segments: range
    columns: int
    rows: int


def make(plan: EncodePlan, folder: Path, *, stop: Callable[[], bool] | None = None) -> Thumbnails:
    """Write `poster.jpg`, `storyboard_001.jpg` … and `storyboard.vtt` below a folder of finished renditions."""
    with scratch_folder(folder, "thumbnail") as made:
        _draw_apart(plan, folder.resolve(), made.resolve(), stop)
        for name, (width, height) in sizes(plan).items():
            try:
                jpeg.check(made / name, width=width, height=height)
            except (jpeg.NotAJpeg, OSError) as problem:
                raise MediaError(
                    f"{name} was not made as it should be: {problem}.", code="bad_picture"
                ) from None
            (made / name).replace(folder / name)
    return gather(plan, folder)


def _draw_apart(plan: EncodePlan, folder: Path, made: Path, stop: Callable[[], bool] | None) -> None:
    within = Bounds(memory=MEMORY, seconds=SECONDS, read=[folder], write=[made], largest_file=LARGEST_PICTURE)
    try:
        problem = contained.call(
            answer, json.dumps(plan.to_json()), str(folder), str(made), within=within, stop=stop
        )
    except Broken as broken:
        raise MediaError(f"Making the pictures {broken}", code="drawing_failed") from None
    if problem:
        raise MediaError(problem["text"], code=problem["code"])


def answer(plan: str, folder: str, made: str) -> dict[str, str] | None:
    """Called in the child: why it could not be done."""
    try:
        draw(EncodePlan.from_json(json.loads(plan)), Path(folder), Path(made))
    except MediaError as problem:
        return {"text": str(problem), "code": problem.code}
    return None


def draw(plan: EncodePlan, folder: Path, made: Path) -> None:
    (made / POSTER).write_bytes(_jpeg(_best_picture(plan, folder), quality=3))
    width, height = _tile_size(plan.renditions[-1])
    for sheet in sheets_of(plan):
        pictures = (_keyframe(folder / plan.renditions[-1].name, number) for number in sheet.segments)
        tiled = _tile(pictures, width, height, sheet.columns, sheet.rows)
        (made / sheet.name).write_bytes(_jpeg(tiled, quality=5))


def gather(plan: EncodePlan, folder: Path) -> Thumbnails:
    """Of pictures that are there: the text that says which of them to show when, and all with their checksums."""
    sheets = sheets_of(plan)
    storyboard = folder / STORYBOARD
    storyboard.write_text(
        storyboard_vtt(plan, _tiles(plan), [s.name for s in sheets], *_tile_size(plan.renditions[-1]))
    )
    return Thumbnails(
        poster=written(folder / POSTER, folder),
        storyboard=written(storyboard, folder),
        sheets=tuple(written(folder / sheet.name, folder) for sheet in sheets),
    )


def sizes(plan: EncodePlan) -> dict[str, tuple[int, int]]:
    """Every picture that make() writes, and its width and height."""
    poster, (width, height) = _poster_rendition(plan), _tile_size(plan.renditions[-1])
    sheets = {sheet.name: (sheet.columns * width, sheet.rows * height) for sheet in sheets_of(plan)}
    return {POSTER: (poster.width, poster.height), **sheets}


def needed(plan: EncodePlan) -> list[str]:
    """The files that make() reads."""
    wanted = [
        (_poster_rendition(plan).name, _poster_segments(plan)),
        (plan.renditions[-1].name, _tiles(plan)),
    ]
    names = [
        f"{name}/{file}" for name, numbers in wanted for file in (INIT, *(segment_name(n) for n in numbers))
    ]
    return list(dict.fromkeys(names))


def _tiles(plan: EncodePlan) -> range:
    """The segments whose first pictures are shown."""
    return range(1, plan.total_segments + 1, max(1, -(-plan.total_segments // MOST_TILES)))


def sheets_of(plan: EncodePlan) -> list[Sheet]:
    tiles = _tiles(plan)
    sheets: list[Sheet] = []
    for first in range(0, len(tiles), COLUMNS * ROWS):
        part = tiles[first : first + COLUMNS * ROWS]
        columns = min(COLUMNS, len(part))
        sheets.append(Sheet(f"storyboard_{len(sheets) + 1:03d}.jpg", part, columns, -(-len(part) // columns)))
    return sheets


def storyboard_vtt(plan: EncodePlan, segments: range, sheets: list[str], width: int, height: int) -> str:
    """Which tile to show when: WebVTT with `#xywh=` addresses, as players read it."""
    lines = ["WEBVTT", ""]
    for index, number in enumerate(segments):
        sheet, place = divmod(index, COLUMNS * ROWS)
        row, column = divmod(place, COLUMNS)
        start = (number - 1) * plan.segment_frames / plan.frame_rate
        end = min((number - 1 + segments.step) * plan.segment_frames / plan.frame_rate, plan.duration)
        lines += [
            f"{timestamp(start)} --> {timestamp(end)}",
            f"{sheets[sheet]}#xywh={column * width},{row * height},{width},{height}",
            "",
        ]
    return "\n".join(lines)


def _best_picture(plan: EncodePlan, folder: Path) -> Any:
    """The picture with the most to see, from the middle of the video: openings and ends are often black."""
    rendition = _poster_rendition(plan)
    pictures = [_keyframe(folder / rendition.name, number) for number in _poster_segments(plan)]
    if (
        plan.total_segments < 4
    ):  # so few keyframes that the first may be all there is: look at later pictures too
        pictures += _some_frames(folder / rendition.name, 1)
    return max(pictures, key=_interest)


def _poster_rendition(plan: EncodePlan) -> RenditionPlan:
    return next((r for r in plan.renditions if min(r.width, r.height) <= 720), plan.renditions[-1])


def _poster_segments(plan: EncodePlan) -> range:
    count = plan.total_segments
    first, last = (1, count) if count < 4 else (1 + count // 10, count - count // 10)
    return range(first, last + 1, max(1, (last - first + 1) // CANDIDATES))


def _interest(picture: Any) -> float:
    """How much light varies: nothing on black, white or a plain title card's ground."""
    plane = picture.planes[0]
    data = memoryview(plane)
    sample: list[int] = [
        data[y * plane.line_size + x] for y in range(0, picture.height, 8) for x in range(0, picture.width, 8)
    ]
    mean = sum(sample) / len(sample)
    return sum((value - mean) ** 2 for value in sample) / len(sample)


def _keyframe(folder: Path, segment: int) -> Any:
    for frame in _frames(folder, segment):
        return frame
    raise MediaError(
        f"{folder.name}/{segment_name(segment)} has no picture that can be decoded.", code="undecodable"
    )


def _some_frames(folder: Path, segment: int) -> list[Any]:
    return [frame for number, frame in enumerate(_frames(folder, segment)) if number % 12 == 0]


def _frames(folder: Path, segment: int) -> Iterator[Any]:
    import av

    data = (folder / INIT).read_bytes() + (folder / segment_name(segment)).read_bytes()
    try:
        with av.open(io.BytesIO(data), mode="r", format="mov") as container:
            yield from container.decode(video=0)
    except av.FFmpegError as error:
        raise MediaError(
            f"{folder.name}/{segment_name(segment)} cannot be decoded: {error}", code="undecodable"
        ) from error


def _tile_size(rendition: RenditionPlan) -> tuple[int, int]:
    scale = Fraction(TILE, max(rendition.width, rendition.height))
    return max(2, round(rendition.width * scale / 2) * 2), max(2, round(rendition.height * scale / 2) * 2)


def _tile(pictures: Iterator[Any], width: int, height: int, columns: int, rows: int) -> Any:
    """One sheet of all pictures, side by side."""
    import av.filter

    graph = av.filter.Graph()
    first = next(pictures)
    source = graph.add_buffer(
        width=first.width, height=first.height, format=first.format.name, time_base=Fraction(1, 25)
    )
    scale = graph.add("scale", f"{width}:{height}")
    tile = graph.add("tile", f"layout={columns}x{rows}")
    sink = graph.add("buffersink")
    source.link_to(scale)
    scale.link_to(tile)
    tile.link_to(sink)
    graph.configure()
    for number, picture in enumerate((first, *pictures)):
        picture.pts = number
        graph.push(picture)
    graph.push(None)
    return graph.pull()


def _jpeg(picture: Any, *, quality: int) -> bytes:
    """A JPEG file's bytes; quality from 2 (best) to 31."""
    import av

    encoder: Any = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height = picture.width, picture.height
    encoder.pix_fmt = "yuvj420p"
    encoder.time_base = Fraction(1, 25)
    encoder.flags |= av.codec.context.Flags.qscale
    encoder.global_quality = quality * 118  # FF_QP2LAMBDA
    picture = picture.reformat(format="yuvj420p")
    picture.pts = 0
    return b"".join(bytes(packet) for packet in [*encoder.encode(picture), *encoder.encode(None)])
