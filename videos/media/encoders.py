"""The encoders of the picture: one entry each, with what ffmpeg is told and the codec that comes out.

All must give closed groups of exactly one segment; segments.py refuses anything else. libx264 gives the same bytes on
every machine. The others need a GPU, give other bytes each time, and are used only where trial.py has seen them encode.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from videos.media.ffmpeg import RunLimits
from videos.media.plan import EncodePlan, RenditionPlan

SOFTWARE = "libx264"
DRIVERS_ADDRESS_SPACE = 1 << 46
"""CUDA reserves as much as there is memory in the machine and on its cards."""


@dataclass(frozen=True, kw_only=True)
class Codec:
    """A format of the picture: how an MP4 says that it holds it, and what playlists call it."""

    entry: str
    """The kind of its sample description."""
    configuration: str
    """The box in there that is for decoders."""
    name: Callable[[bytes], str]
    """From what that box holds to the name in CODECS (RFC 6381)."""


H264 = Codec(entry="avc1", configuration="avcC", name=lambda avcc: f"avc1.{avcc[1:4].hex()}")


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """How an encoder is told what the plan says."""

    name: str
    arguments: Callable[[EncodePlan, RenditionPlan], list[str]]
    codec: Codec = H264
    hardware: bool = False
    devices: str = ""
    """A pattern of device files, one of which it must be given; empty: it finds its device itself."""
    device_options: str = ""
    """ffmpeg's options, before any input, that open `{device}`."""
    upload: str = ""
    """The filters that bring a picture to the device."""

    def opening(self, device: str) -> list[str]:
        return self.device_options.format(device=device).split()

    def within(self, limits: RunLimits) -> RunLimits:
        """Drivers open files of their own, and reserve far more addresses than they use."""
        return (
            replace(limits, landlock=False, address_space=DRIVERS_ADDRESS_SPACE) if self.hardware else limits
        )


def _rate_control(plan: EncodePlan, rendition: RenditionPlan, *, level: str) -> list[str]:
    """Profile and level are H.264's."""
    return [
        *("-profile:v", rendition.profile, "-level:v", level, "-g", str(plan.segment_frames)),
        *("-b:v", str(rendition.bitrate), "-maxrate", str(rendition.maxrate)),
        *("-bufsize", str(rendition.bufsize), "-flags:v", "+bitexact+cgop"),
    ]


def _level_number(rendition: RenditionPlan) -> str:
    """4.0 as 40: some encoders take level_idc, and would read "4.0" as 4."""
    return rendition.level.replace(".", "")


def on_the_grid(plan: EncodePlan) -> list[str]:
    """A keyframe wherever a segment starts, and nowhere else; no B-frames, which GPUs arrange as they like."""
    return ["-force_key_frames", f"expr:not(mod(n,{plan.segment_frames}))", "-bf", "0"]


def libx264(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    # One thread: with more, rate control depends on timing, and bytes differ from run to run.
    return [
        *("-c:v", "libx264", "-preset", plan.preset, "-threads", "1", "-pix_fmt", "yuv420p"),
        *_rate_control(plan, rendition, level=rendition.level),
        *("-keyint_min", str(plan.segment_frames), "-sc_threshold", "0", "-bf", "3"),
        *("-x264-params", "open-gop=0:b-pyramid=normal"),
    ]


def _nvenc(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    return [
        *("-c:v", "h264_nvenc", "-preset", "p5", "-rc", "vbr", "-pix_fmt", "yuv420p"),
        *_rate_control(plan, rendition, level=rendition.level),
        *on_the_grid(plan),
        *("-forced-idr", "1", "-no-scenecut", "1", "-strict_gop", "1"),
    ]


def _qsv(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    return [
        *("-c:v", "h264_qsv", "-preset", "faster", "-pix_fmt", "nv12"),
        *_rate_control(plan, rendition, level=_level_number(rendition)),
        *on_the_grid(plan),
        *("-forced_idr", "1", "-idr_interval", "0", "-adaptive_i", "0", "-adaptive_b", "0"),
    ]


def _vaapi(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    return [
        *("-c:v", "h264_vaapi", "-rc_mode", "VBR"),
        *_rate_control(plan, rendition, level=_level_number(rendition)),
        *on_the_grid(plan),
        *("-idr_interval", "0"),
    ]


ENCODERS = {
    encoder.name: encoder
    for encoder in (
        Encoder(name=SOFTWARE, arguments=libx264),
        Encoder(name="h264_nvenc", arguments=_nvenc, hardware=True),
        Encoder(name="h264_qsv", arguments=_qsv, hardware=True),
        Encoder(
            name="h264_vaapi",
            arguments=_vaapi,
            hardware=True,
            devices="/dev/dri/renderD*",
            device_options="-init_hw_device vaapi=gpu:{device} -filter_hw_device gpu",
            upload="format=nv12,hwupload",
        ),
    )
}


def hardware_names() -> list[str]:
    return [encoder.name for encoder in ENCODERS.values() if encoder.hardware]


def codecs() -> set[Codec]:
    return {encoder.codec for encoder in ENCODERS.values()}
