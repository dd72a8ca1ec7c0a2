"""A codec beside H.264, added as docs/pipeline.md says: one entry."""

from videos.media.encoders import Codec, Encoder
from videos.media.plan import EncodePlan, RenditionPlan


def _name(hvcc: bytes) -> str:
    """hvc1.1.6.L93.90: profile, compatibility (its bits from right to left), tier and level, constraints."""
    profile = hvcc[1] & 0x1F
    compatible = int(f"{int.from_bytes(hvcc[2:6]):032b}"[::-1], 2)
    tier = "H" if hvcc[1] & 0x20 else "L"
    constraints = "".join(f".{byte:X}" for byte in hvcc[6:12].rstrip(b"\0"))
    return f"hvc1.{profile}.{compatible:X}.{tier}{hvcc[12]}{constraints}"


def _arguments(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    return [
        *("-c:v", "libx265", "-tag:v", "hvc1", "-preset", plan.preset, "-pix_fmt", "yuv420p"),
        *("-b:v", str(rendition.bitrate), "-maxrate", str(rendition.maxrate)),
        *("-bufsize", str(rendition.bufsize), "-flags:v", "+bitexact"),
        *("-g", str(plan.segment_frames), "-keyint_min", str(plan.segment_frames), "-bf", "3"),
        "-x265-params",
        "open-gop=0:scenecut=0:b-pyramid=1:info=0:pools=none:frame-threads=1:wpp=0:log-level=warning",
    ]


LIBX265 = Encoder(
    name="libx265",
    arguments=_arguments,
    codec=Codec(entry="hvc1", configuration="hvcC", name=_name),
)
