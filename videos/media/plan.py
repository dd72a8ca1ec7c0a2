"""The plan of one transcode: every frame, segment and chunk, and every setting of the encoder, as plain data.

The plan is made once, after the probe. A chunk is described by the plan and its number alone, so any worker
can encode it, or encode it again, and get the same bytes.

    frame 0 ──────────────────────────────────────────────────────── frame n
    │ segment 1 │ segment 2 │ … │ segment 6 │ …                    │ shorter │
    │              chunk 1              │             chunk 2                │

All borders are whole frames at one constant rate. Only what follows the last whole segment is shorter.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from videos.media import rates, serial
from videos.media.containers import CONTAINERS
from videos.media.ladder import Choice, Size
from videos.media.levels import level_for
from videos.media.source import SourceInfo

VERSION = 1
SAMPLE_RATE = 48000
AAC_FRAME = 1024
SEEK_EARLY = 1.0
"""Seconds before a chunk at which decoding starts: filters that look back see what they would have seen."""
REORDER = 2
"""x264 with B-frames that other B-frames refer to (`b-pyramid`)."""
AUDIO_LEAD = Fraction(1, 2)
LONGEST_LEAD = Fraction(30)


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """What an installation chooses."""

    segment_seconds: Fraction = Fraction(6)
    segments_per_chunk: int = 5
    preset: str = "veryfast"
    encoder: str = "libx264"


@dataclass(frozen=True, kw_only=True)
class RenditionPlan:
    """One quality of the picture, with everything the encoder is told."""

    name: str
    width: int
    height: int
    bitrate: int
    maxrate: int
    bufsize: int
    profile: str
    level: str
    audio_bitrate: int


@dataclass(frozen=True, kw_only=True)
class AudioPlan:
    """One sound track of the source, and what is made of it."""

    number: int
    """1, 2, … in the order of the source."""
    index: int
    language: str
    title: str
    default: bool
    channels: int
    bitrates: tuple[int, ...]

    def folder(self, bitrate: int) -> str:
        """The name of its folder, and of its group: "audio_1_128k"."""
        return f"audio_{self.number}_{bitrate // 1000}k"


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A run of whole segments: what one job encodes. Frames and segments up to, not including, the last."""

    number: int
    first_frame: int
    end_frame: int
    first_segment: int
    end_segment: int

    @property
    def frames(self) -> int:
        return self.end_frame - self.first_frame

    @property
    def segments(self) -> range:
        return range(self.first_segment, self.end_segment)


@dataclass(frozen=True, kw_only=True)
class EncodePlan:
    """One transcode. Numbers of chunks and segments start at 1, of frames at 0."""

    version: int
    ffmpeg: str
    """The build that encodes: another one would give other bytes. With a GPU, "build encoder-mark" (see trial.py)."""
    encoder: str
    preset: str
    container: str
    video_index: int
    origin: Fraction
    """The moment on the source's clock that is published as zero."""
    origin_ticks: int
    """The same, in ticks of the picture's time base."""
    held_frames: int
    """How long the first picture is shown before its time, because sound comes earlier."""
    rotation: int
    deinterlace: bool
    hdr_transfer: str
    to_bt709: bool
    frame_rate: Fraction
    total_frames: int
    segment_frames: int
    segments_per_chunk: int
    seeks: tuple[float | None, ...]
    """Where on the source's clock to start reading for each chunk; None is the beginning of the file."""
    reorder: int
    """How many frames earlier than shown a frame may have to be decoded (B-frames refer to later ones)."""
    renditions: tuple[RenditionPlan, ...]
    """Largest first."""
    skipped: tuple[str, ...]
    audio: tuple[AudioPlan, ...]

    @property
    def build(self) -> str:
        """The build of ffmpeg alone, which is what sound depends on."""
        return self.ffmpeg.partition(" ")[0]

    # Time

    @property
    def timescale(self) -> int:
        """Ticks per second of the published picture: a multiple of the rate, so a frame is a whole number."""
        return self.frame_rate.numerator * self._ticks_factor

    @property
    def frame_ticks(self) -> int:
        return self.frame_rate.denominator * self._ticks_factor

    @property
    def _ticks_factor(self) -> int:
        factor = 1
        while self.frame_rate.numerator * factor < 10_000:
            factor *= 2
        return factor

    @property
    def duration(self) -> Fraction:
        return self.total_frames / self.frame_rate

    @property
    def zero(self) -> Fraction:
        """The timestamp of the first picture and the first sound, in seconds: small, but not 0.

        The first frames are decoded before they are shown. Decode times cannot be negative, and what players
        make of negative composition offsets and of edit lists differs (ffmpeg shows such pictures late). So all
        of the programme, sound too, is moved by the few frames that make every decode time and offset positive.
        """
        return self.reorder / self.frame_rate

    # Segments and chunks

    @property
    def total_segments(self) -> int:
        return -(-self.total_frames // self.segment_frames)

    @property
    def total_chunks(self) -> int:
        return -(-self.total_segments // self.segments_per_chunk)

    def segment_length(self, segment: int) -> int:
        """Frames in a segment."""
        if not 1 <= segment <= self.total_segments:
            raise ValueError(f"there is no segment {segment} of {self.total_segments}")
        return min(self.segment_frames, self.total_frames - (segment - 1) * self.segment_frames)

    def chunk(self, number: int) -> Chunk:
        if not 1 <= number <= self.total_chunks:
            raise ValueError(f"there is no chunk {number} of {self.total_chunks}")
        first = (number - 1) * self.segments_per_chunk
        end = min(first + self.segments_per_chunk, self.total_segments)
        return Chunk(
            number=number,
            first_frame=first * self.segment_frames,
            end_frame=min(end * self.segment_frames, self.total_frames),
            first_segment=first + 1,
            end_segment=end + 1,
        )

    def chunks(self) -> list[Chunk]:
        return [self.chunk(number) for number in range(1, self.total_chunks + 1)]

    # Sound

    @property
    def audio_frames(self) -> int:
        """AAC frames in every sound track: enough to cover the last picture."""
        return -(-int(self.duration * SAMPLE_RATE // 1) // AAC_FRAME) or 1

    def audio_segment(self, segment: int) -> range:
        """The AAC frames of a segment: it starts with the frame nearest to the picture's border."""
        end = self.audio_frames if segment == self.total_segments else self._audio_border(segment)
        return range(min(self._audio_border(segment - 1), end), end)

    @property
    def audio_zero(self) -> int:
        """The first sound's timestamp in samples."""
        return round(self.zero * SAMPLE_RATE)

    @property
    def audio_segments(self) -> int:
        """Segments that have sound: one fewer than of the picture if the last is shorter than half an AAC frame."""
        last = self.total_segments
        return last if self.audio_segment(last) else last - 1

    def _audio_border(self, segment: int) -> int:
        at = segment * self.segment_frames / self.frame_rate * SAMPLE_RATE / AAC_FRAME
        return min(round(at), self.audio_frames)

    @property
    def bitrates(self) -> tuple[int, ...]:
        """The bitrates of sound, highest first."""
        return tuple(sorted({r.audio_bitrate for r in self.renditions}, reverse=True))

    # The plan itself

    def shortened(self, total_frames: int) -> Self:
        """The same plan for a source that turned out to have fewer pictures. Whole chunks before stay as they are."""
        if not 0 < total_frames <= self.total_frames:
            raise ValueError(f"{total_frames} is not fewer than {self.total_frames} frames")
        shorter = replace(self, total_frames=total_frames)
        return replace(shorter, seeks=self.seeks[: shorter.total_chunks])

    def with_kept(self, kept: Self) -> Self:
        """The plan of all that is published, where the renditions of another one with the same segments are kept."""
        both = sorted((*self.renditions, *kept.renditions), key=lambda r: -r.width * r.height)
        return replace(self, renditions=tuple(both))

    def digest(self) -> str:
        return serial.digest(self)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = serial.to_json(self)
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        if data.get("version") != VERSION:
            raise ValueError(f"this plan is of version {data.get('version')}; here it is {VERSION}")
        return serial.from_json(cls, data)


def make_plan(
    source: SourceInfo,
    choice: Choice,
    *,
    ffmpeg_build: str,
    settings: PlanSettings = PlanSettings(),  # noqa: B008 (frozen)
) -> EncodePlan:
    """The plan for a source in the sizes chosen by ladder.rungs_for()."""
    video = source.video
    rate = rates.publish_at(video.frame_rate, variable=video.variable_rate)
    origin = _origin(source)
    segment_frames = max(1, round(settings.segment_seconds * rate))
    renditions = tuple(_rendition(size, rate) for size in choice.sizes)
    plan = EncodePlan(
        version=VERSION,
        ffmpeg=ffmpeg_build,
        encoder=settings.encoder,
        preset=settings.preset,
        container=source.container,
        video_index=video.index,
        origin=origin,
        origin_ticks=round(origin / video.time_base),
        held_frames=round((video.start - origin) * rate),
        rotation=video.rotation,
        deinterlace=video.interlaced,
        hdr_transfer=video.hdr_transfer,
        to_bt709=video.pix_fmt.startswith(("rgb", "bgr", "gbr", "argb", "abgr", "0rgb", "pal8")),
        frame_rate=rate,
        total_frames=max(1, round((video.end - origin) * rate)),
        segment_frames=segment_frames,
        segments_per_chunk=settings.segments_per_chunk,
        seeks=(),
        reorder=REORDER,
        renditions=renditions,
        skipped=tuple(rung.name for rung in choice.skipped),
        audio=_audio(source, renditions),
    )
    return replace(plan, seeks=tuple(_seek(source, plan, chunk) for chunk in plan.chunks()))


def plan_beside(kept: EncodePlan, choice: Choice, *, ffmpeg_build: str, settings: PlanSettings) -> EncodePlan:
    """The plan for these sizes beside renditions that are kept: frame by frame and segment by segment as theirs,
    whatever the settings say by now, for players change between the renditions at any segment."""
    renditions = tuple(_rendition(size, kept.frame_rate) for size in choice.sizes)
    bitrates = {r.audio_bitrate for r in (*renditions, *kept.renditions)}
    return replace(
        kept,
        ffmpeg=ffmpeg_build,
        encoder=settings.encoder,
        preset=settings.preset,
        renditions=renditions,
        skipped=tuple(rung.name for rung in choice.skipped),
        audio=tuple(replace(track, bitrates=tuple(sorted(bitrates, reverse=True))) for track in kept.audio),
    )


def _origin(source: SourceInfo) -> Fraction:
    """The first picture, or the first sound where that comes clearly earlier: then the picture is held."""
    start = source.video.start
    sounds = [track.start for track in source.audio if AUDIO_LEAD < start - track.start < LONGEST_LEAD]
    return min(sounds, default=start)


def _seek(source: SourceInfo, plan: EncodePlan, chunk: Chunk) -> float | None:
    wanted = float(plan.origin + chunk.first_frame / plan.frame_rate) - SEEK_EARLY
    if not CONTAINERS[source.container].indexed:
        # These seek to a moment, not to a keyframe: aim a little before the keyframe that is needed.
        keyframes = source.video.keyframes
        before = bisect_right(keyframes, wanted)
        wanted = (keyframes[before - 1] if before else 0) - SEEK_EARLY / 2
    return wanted if chunk.number > 1 and wanted > source.video.start else None


def _audio(source: SourceInfo, renditions: tuple[RenditionPlan, ...]) -> tuple[AudioPlan, ...]:
    bitrates = tuple(sorted({r.audio_bitrate for r in renditions}, reverse=True))
    default = next((track.index for track in source.audio if track.default), None)
    if default is None and source.audio:
        default = source.audio[0].index
    return tuple(
        AudioPlan(
            number=number,
            index=track.index,
            language=track.language,
            title=track.title,
            default=track.index == default,
            channels=min(2, max(1, track.channels)),
            bitrates=bitrates,
        )
        for number, track in enumerate(source.audio, start=1)
    )


def _rendition(size: Size, rate: Fraction) -> RenditionPlan:
    rung = size.rung
    maxrate = rung.video_bitrate * 5 // 4
    bufsize = rung.video_bitrate * 2
    return RenditionPlan(
        name=rung.name,
        width=size.width,
        height=size.height,
        bitrate=rung.video_bitrate,
        maxrate=maxrate,
        bufsize=bufsize,
        profile="high",
        level=level_for(size.width, size.height, rate, maxrate),
        audio_bitrate=rung.audio_bitrate,
    )
