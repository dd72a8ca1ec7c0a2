"""Subtitles of a source: its own text tracks, or what is said in it.

Uploaded files are read by webvtt.read_captions(); recognition.py listens. All times come out on the plan's clock:
zero is the first picture.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from videos.media import ffmpeg, webvtt
from videos.media.containers import TEXT_SUBTITLES
from videos.media.ffmpeg import RunLimits
from videos.media.plan import EncodePlan
from videos.media.recognition import SPEECH_RATE, Heard, Recogniser
from videos.media.scratch import scratch_folder
from videos.media.webvtt import BadSubtitles, Cue


def extract_track(
    plan: EncodePlan,
    index: int,
    *,
    source: Path,
    work: Path,
    ffmpeg_binary: Path,
    limits: RunLimits = RunLimits(),  # noqa: B008 (frozen)
    stop: Callable[[], bool] | None = None,
) -> list[Cue]:
    """The cues of a text track inside the source (SubtitleTrack.index); none if it is empty."""
    with scratch_folder(work, "subtitles") as folder:
        ffmpeg.run(
            [
                *ffmpeg.source_input(source, plan.container, "-copyts", subtitles=tuple(TEXT_SUBTITLES)),
                *("-map", f"0:{index}", "-c:s", "webvtt", "-f", "webvtt", "track.vtt"),
            ],
            ffmpeg=ffmpeg_binary,
            folder=folder,
            reads=[source],
            limits=limits,
            stop=stop,
        )
        try:
            cues = webvtt.read_captions((folder / "track.vtt").read_bytes())
        except BadSubtitles:
            return []
    return webvtt.shifted(cues, -plan.origin, until=plan.duration)


def recognise(
    plan: EncodePlan,
    track: int,
    *,
    source: Path,
    work: Path,
    ffmpeg_binary: Path,
    recogniser: Recogniser,
    language: str = "",
    limits: RunLimits = RunLimits(),  # noqa: B008 (frozen)
    on_progress: Callable[[float], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Heard:
    """What is said in sound track `track` (AudioPlan.number). `on_progress` is told the seconds listened to."""
    with scratch_folder(work, "speech") as folder:
        sound = next(sound for sound in plan.audio if sound.number == track)
        graph = (
            f"[0:{sound.index}]asetpts=PTS-({plan.origin.numerator}/{plan.origin.denominator})/TB,"
            f"aresample={SPEECH_RATE}:async=1:first_pts=0,aformat=sample_fmts=s16:channel_layouts=mono,"
            f"atrim=end={float(plan.duration):.3f}[out]"
        )
        ffmpeg.run(
            [
                *ffmpeg.source_input(source, plan.container, "-copyts"),
                *("-filter_complex", graph, "-map", "[out]", "-c:a", "pcm_s16le"),
                *("-map_metadata", "-1", "-fflags", "+bitexact", "-f", "wav", "speech.wav"),
            ],
            ffmpeg=ffmpeg_binary,
            folder=folder,
            reads=[source],
            limits=limits,
            stop=stop,
        )
        heard = recogniser.listen(
            folder / "speech.wav", language=language, on_progress=on_progress, stop=stop
        )
    return replace(heard, cues=webvtt.shifted(heard.cues, Fraction(0), until=plan.duration))
