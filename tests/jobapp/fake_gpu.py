"""No GPU: libx264 under another name, so that what is done about GPUs can be tested where there is none."""

from jobs import job_type, registry
from videos.media.encoders import ENCODERS, Encoder, libx264, on_the_grid
from videos.media.plan import EncodePlan, RenditionPlan
from videos.pipeline import CHUNKS_ON_A_GPU, ENCODE

NAME = "libx264_as_if_on_a_gpu"
CHUNK_TYPE = f"{ENCODE}.{NAME}"


def arguments(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    return [*libx264(plan, rendition), *on_the_grid(plan)]


LIBX264 = Encoder(name=NAME, arguments=arguments, hardware=True)


def install(encoder: Encoder = LIBX264) -> None:
    """Known from now on; used only where VIDEOS["HARDWARE_ENCODERS"] names it."""
    ENCODERS[encoder.name] = encoder
    kind = registry.get(ENCODE)
    name = f"{ENCODE}.{encoder.name}"
    job_type(name, requires=[encoder.name], artifact=kind.artifact, per_worker=CHUNKS_ON_A_GPU)(kind.handler)
