"""The same renditions without a pipeline: by one ffmpeg (B), and by one ffmpeg per quality (the usual way).

Rate control, preset and groups of pictures are the plan's own (`ENCODERS`), so all encode the same. What Sprocket needs
beyond that costs only Sprocket: equal bytes on every machine (scaler flags, one thread), containment, checks, joins.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from videos.media import ffmpeg, ladder
from videos.media.commands import chunk_arguments
from videos.media.encoders import ENCODERS
from videos.media.plan import SAMPLE_RATE, AudioPlan, EncodePlan, PlanSettings, RenditionPlan, make_plan
from videos.media.probe import probe

ONE_THREAD = ["-threads", "1"]


@dataclass(frozen=True)
class Cost:
    """In seconds."""

    wall: float
    cpu: float


def plan_for(source: Path, settings: PlanSettings) -> EncodePlan:
    info = probe(source)
    choice = ladder.rungs_for(info.video.width, info.video.height)
    return make_plan(info, choice, ffmpeg_build=ffmpeg.build_id(ffmpeg.binary()), settings=settings)


def one_ffmpeg(plan: EncodePlan, source: Path, folder: Path, *, one_thread: bool) -> Cost:
    """B: decode once, split, scale, write every rendition and the sound at once, as HLS with fMP4."""
    names = [rendition.name for rendition in plan.renditions]
    names += [track.folder(bitrate) for track in plan.audio for bitrate in track.bitrates]
    _empty(folder, names)
    count = len(plan.renditions)
    graph = f"[0:v]split={count}" + "".join(f"[in{n}]" for n in range(count))
    for number, rendition in enumerate(plan.renditions):
        graph += f";[in{number}]{_scale(rendition)}[out{number}]"
    arguments = ["-i", str(source), "-filter_complex", graph]
    for number, rendition in enumerate(plan.renditions):
        arguments += ["-map", f"[out{number}]", *_picture(plan, rendition, one_thread=one_thread)]
        arguments += _hls(plan, rendition.name)
    for track in plan.audio:
        for bitrate in track.bitrates:
            arguments += ["-map", f"0:{track.index}", *_sound(track, bitrate)]
            arguments += _hls(plan, track.folder(bitrate))
    return _run(arguments, folder)


def one_per_quality(plan: EncodePlan, source: Path, folder: Path, *, one_thread: bool) -> Cost:
    """The usual way: one after the other, each decodes the whole file and has its own sound."""
    _empty(folder, [rendition.name for rendition in plan.renditions])
    costs = []
    for rendition in plan.renditions:
        arguments = ["-i", str(source), "-map", "0:v:0", "-vf", _scale(rendition)]
        arguments += _picture(plan, rendition, one_thread=one_thread)
        for track in plan.audio:
            arguments += ["-map", f"0:{track.index}", *_sound(track, rendition.audio_bitrate)]
        costs.append(_run([*arguments, *_hls(plan, rendition.name)], folder))
    return Cost(wall=sum(cost.wall for cost in costs), cpu=sum(cost.cpu for cost in costs))


def one_chunk(plan: EncodePlan, source: Path, folder: Path) -> Cost:
    """The pipeline's own command for its first chunk, with nothing around it."""
    _empty(folder, [])
    return _run(chunk_arguments(plan, plan.chunk(1), source=source, seek=None), folder)


def bitrate(folder: Path, plan: EncodePlan) -> float:
    """Bits per second of a finished rendition, whoever has made it."""
    return sum(path.stat().st_size for path in folder.glob("*.m4s")) * 8 / float(plan.duration)


def _scale(rendition: RenditionPlan) -> str:
    return f"scale={rendition.width}:{rendition.height}"


def _picture(plan: EncodePlan, rendition: RenditionPlan, *, one_thread: bool) -> list[str]:
    arguments = ENCODERS[plan.encoder].arguments(plan, rendition)
    if one_thread:
        return arguments
    at = arguments.index(ONE_THREAD[0])
    assert arguments[at : at + 2] == ONE_THREAD
    return arguments[:at] + arguments[at + 2 :]


def _sound(track: AudioPlan, bitrate: int) -> list[str]:
    return ["-c:a", "aac", "-b:a", str(bitrate), "-ar", str(SAMPLE_RATE), "-ac", str(track.channels)]


def _hls(plan: EncodePlan, name: str) -> list[str]:
    return [
        *("-f", "hls", "-hls_time", str(float(plan.segment_frames / plan.frame_rate))),
        *("-hls_playlist_type", "vod", "-hls_segment_type", "fmp4", "-hls_fmp4_init_filename", "init.mp4"),
        *("-hls_segment_filename", f"{name}/seg_%05d.m4s", f"{name}/playlist.m3u8"),
    ]


def _empty(folder: Path, names: list[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        (folder / name).mkdir()


def _run(arguments: list[str], folder: Path) -> Cost:
    log = folder / "log"
    command = [str(ffmpeg.binary()), "-nostdin", "-v", "error", "-y", *arguments]
    with log.open("wb") as errors:
        begin = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(
            f"ffmpeg ended with {process.returncode}: {log.read_text(errors='replace')[-500:]}"
        )
    return Cost(wall=wall, cpu=usage.ru_utime + usage.ru_stime)
