"""Does an encoder work here? Found out by encoding with it: builds list encoders, and drivers promise them, in vain."""

import hashlib
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from videos.media import ffmpeg
from videos.media.commands import finishing_filters, output_arguments
from videos.media.encoders import ENCODERS, Encoder
from videos.media.exceptions import ChunkRefused, FfmpegFailed
from videos.media.ffmpeg import RunLimits
from videos.media.plan import REORDER, VERSION, EncodePlan, RenditionPlan
from videos.media.segments import INIT, cut_picture

LIMITS = RunLimits(wall_clock=30, no_progress=20)
RATE = 30
LONGEST_REASON = 300
PICTURE = RenditionPlan(
    name="360p",
    width=640,
    height=360,
    bitrate=600_000,
    maxrate=750_000,
    bufsize=1_200_000,
    profile="high",
    level="3.0",
    audio_bitrate=96_000,
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of it."""

    works: bool
    reason: str = ""
    """Why not."""
    device: str = ""
    mark: str = ""
    """Of the stream's header: chunks can be joined only where it is the same."""


def try_out(name: str, *, ffmpeg_binary: Path) -> Trial:
    """Encode two segments, as a chunk is encoded, and look at them as a chunk is looked at."""
    encoder = ENCODERS[name]
    plan = _plan(encoder)
    arguments = output_arguments(plan, PICTURE)
    codec = arguments[arguments.index("-c:v") + 1]
    if codec not in ffmpeg.encoders_of(ffmpeg_binary, ffmpeg.build_id(ffmpeg_binary)):
        return Trial(works=False, reason=f"this ffmpeg was built without {codec}")
    trial = Trial(works=False, reason=f"there is no device {encoder.devices}")
    for device in _devices(encoder):
        trial = _try_device(encoder, plan, device, ffmpeg_binary)
        if trial.works:
            break
    return trial


def _devices(encoder: Encoder) -> list[str]:
    if not encoder.devices:
        return [""]
    pattern = Path(encoder.devices)
    return sorted(str(path) for path in pattern.parent.glob(pattern.name))


def _try_device(encoder: Encoder, plan: EncodePlan, device: str, ffmpeg_binary: Path) -> Trial:
    chunk = plan.chunk(1)
    with tempfile.TemporaryDirectory(prefix="sprocket-encoder-") as name:
        folder = Path(name)
        try:
            ffmpeg.run(
                [
                    *encoder.opening(device),
                    *("-f", "lavfi", "-i", f"testsrc2=size={PICTURE.width}x{PICTURE.height}:rate={RATE}"),
                    *("-filter_complex", f"[0:v]{finishing_filters(plan, PICTURE)}[out]", "-map", "[out]"),
                    *(*output_arguments(plan, PICTURE), "-frames:v", str(plan.total_frames)),
                    f"{PICTURE.name}.mp4",
                ],
                ffmpeg=ffmpeg_binary,
                folder=folder,
                limits=encoder.within(LIMITS),
            )
            frames = cut_picture(plan, chunk, PICTURE, folder)
        except FfmpegFailed as error:
            return Trial(works=False, reason=_short(error.stderr or str(error)), device=device)
        except (ChunkRefused, OSError, ValueError) as error:
            return Trial(works=False, reason=_short(str(error)), device=device)
        if frames != plan.total_frames:
            return Trial(works=False, reason=f"it gave {frames} of {plan.total_frames} frames", device=device)
        header = (folder / PICTURE.name / INIT).read_bytes()
    return Trial(works=True, device=device, mark=hashlib.sha256(header).hexdigest()[:8])


def _plan(encoder: Encoder) -> EncodePlan:
    return EncodePlan(
        version=VERSION,
        ffmpeg="",
        encoder=encoder.name,
        preset="veryfast",
        container="mp4",
        video_index=0,
        origin=Fraction(0),
        origin_ticks=0,
        held_frames=0,
        rotation=0,
        deinterlace=False,
        hdr_transfer="",
        to_bt709=False,
        frame_rate=Fraction(RATE),
        total_frames=RATE,
        segment_frames=RATE // 2,
        segments_per_chunk=2,
        seeks=(None,),
        reorder=REORDER,
        renditions=(PICTURE,),
        skipped=(),
        audio=(),
    )


def _short(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]
