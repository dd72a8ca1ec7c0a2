"""The encoders of the picture: one entry each, with what ffmpeg is told, and a way to find out what works here.

All must give closed groups of exactly one segment. libx264 is what gives the same bytes on every machine; the others
need a GPU and are used only after works() has seen them encode.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from videos.media import ffmpeg
from videos.media.exceptions import FfmpegFailed
from videos.media.ffmpeg import RunLimits
from videos.media.plan import EncodePlan, RenditionPlan


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """What ffmpeg calls it, and how it is told what the plan says."""

    name: str
    arguments: Callable[[EncodePlan, RenditionPlan], list[str]]
    needs_gpu: bool = False


def _rate_control(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    return [
        *("-profile:v", rendition.profile, "-level:v", rendition.level, "-g", str(plan.segment_frames)),
        *(
            "-b:v",
            str(rendition.bitrate),
            "-maxrate",
            str(rendition.maxrate),
            "-bufsize",
            str(rendition.bufsize),
        ),
    ]


def _libx264(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    # One thread: with more, rate control depends on timing, and bytes differ from run to run.
    return [
        *("-c:v", "libx264", "-preset", plan.preset, "-threads", "1", "-pix_fmt", "yuv420p"),
        *_rate_control(plan, rendition),
        *("-keyint_min", str(plan.segment_frames), "-sc_threshold", "0", "-bf", "3"),
        *("-x264-params", "open-gop=0:b-pyramid=normal", "-flags:v", "+bitexact+cgop"),
    ]


def _nvenc(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    return [
        *("-c:v", "h264_nvenc", "-preset", "p5", "-rc", "vbr", "-pix_fmt", "yuv420p"),
        *_rate_control(plan, rendition),
        *(
            "-bf",
            "0",
            "-forced-idr",
            "1",
            "-no-scenecut",
            "1",
            "-strict_gop",
            "1",
            "-flags:v",
            "+bitexact+cgop",
        ),
    ]


def _qsv(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    return [
        *("-c:v", "h264_qsv", "-preset", "faster", "-pix_fmt", "nv12"),
        *_rate_control(plan, rendition),
        *("-bf", "0", "-idr_interval", "0", "-adaptive_i", "0", "-flags:v", "+bitexact+cgop"),
    ]


ENCODERS = {
    encoder.name: encoder
    for encoder in (
        Encoder(name="libx264", arguments=_libx264),
        Encoder(name="h264_nvenc", arguments=_nvenc, needs_gpu=True),
        Encoder(name="h264_qsv", arguments=_qsv, needs_gpu=True),
    )
}


def works(name: str, *, ffmpeg_binary: Path) -> bool:
    """Whether this machine encodes with it, found out by encoding something: drivers promise more than they keep."""
    limits = RunLimits(wall_clock=30, no_progress=20, landlock=not ENCODERS[name].needs_gpu)
    with tempfile.TemporaryDirectory(prefix="sprocket-encoder-") as folder:
        try:
            ffmpeg.run(
                [
                    *(
                        "-f",
                        "lavfi",
                        "-i",
                        "testsrc2=size=640x360:rate=30:duration=0.5",
                        "-pix_fmt",
                        "yuv420p",
                    ),
                    *("-c:v", name, "-b:v", "500k", "-f", "mp4", "test.mp4"),
                ],
                ffmpeg=ffmpeg_binary,
                folder=Path(folder),
                limits=limits,
            )
        except FfmpegFailed:
            return False
        return (Path(folder) / "test.mp4").stat().st_size > 0
