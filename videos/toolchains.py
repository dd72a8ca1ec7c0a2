"""Which encoder makes a generation, and who can: a toolchain is a build of ffmpeg with the encoders that work here.

A worker advertises its toolchain among its capabilities when it registers:

    ffmpeg:7.0.2-1a2b3c                       its build; x264 of equal builds gives equal bytes
    gpu, h264_nvenc                           a test encode on its GPU has worked
    ffmpeg:7.0.2-1a2b3c h264_nvenc-9f8e7d6c   and gave a stream with this header

The worker that probes pins the best of its own encoders; an idle GPU worker is served first (`prefers="gpu"`).
Chunks for a GPU are of a type that requires it. A job that was claimed with another toolchain is put off, uncounted,
for those who have the right one. When nobody has it any more, the generation is started over: never mixed.
"""

from __future__ import annotations

import functools
import logging
import os
import random
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

from jobs import LeaseLost, enqueue, fleet
from jobs import conf as jobs_conf
from jobs.lifecycle import Lease
from jobs.models import Job, Status, Worker
from videos import conf, generations, pipeline
from videos.bench import Bench
from videos.exceptions import NobodyEncodes, NotThisWorker
from videos.media import ffmpeg
from videos.media.encoders import SOFTWARE, hardware_names
from videos.media.exceptions import MediaError
from videos.media.plan import EncodePlan
from videos.media.trial import Trial, try_out
from videos.models import Transcode
from videos.progress import plan_of

log = logging.getLogger("videos")

GPU = "gpu"
WATCH = "videos.watch_encoder"
FIRST_WAIT, LONGEST_WAIT = 5.0, 60.0
"""Seconds for which a job is put off."""


@dataclass(frozen=True)
class Toolchain:
    """What this process can encode with."""

    build: str
    working: dict[str, Trial]
    """Encoders on a GPU that have been seen to work, best first."""

    def pin(self, encoder: str) -> str:
        """What a plan for this encoder is bound to."""
        return (
            f"{self.build} {encoder}-{self.working[encoder].mark}" if encoder in self.working else self.build
        )

    def device(self, encoder: str) -> str:
        return self.working[encoder].device if encoder in self.working else ""

    @property
    def capabilities(self) -> frozenset[str]:
        pins = {_capability(self.pin(encoder)) for encoder in (SOFTWARE, *self.working)}
        return frozenset((*pins, *self.working, *([GPU] if self.working else [])))


def here() -> Toolchain:
    """Found out once per process and build."""
    settings = conf.current()
    binary = ffmpeg.binary(settings.ffmpeg)
    return _find_out(binary, ffmpeg.build_id(binary), tuple(settings.preferred_encoders))


@functools.lru_cache(maxsize=4)
def _find_out(binary: Path, build: str, names: tuple[str, ...]) -> Toolchain:
    trials = {name: try_out(name, ffmpeg_binary=binary) for name in names}
    for name, trial in trials.items():
        if trial.works:
            log.info("%s works here%s", name, f" with {trial.device}" if trial.device else "")
        else:
            log.info("%s does not work here: %s", name, trial.reason)
    return Toolchain(build, {name: trial for name, trial in trials.items() if trial.works})


def _capability(pin: str) -> str:
    return f"ffmpeg:{pin}"


# -- the fleet -------------------------------------------------------------------------------------------------------


@fleet.finds_capabilities
def advertise(job_types: Collection[str]) -> Collection[str]:
    """What a worker of this process can encode with, if it is to encode."""
    return here().capabilities if any(pipeline.encodes_picture(name) for name in job_types) else ()


def correct_record(worker_id: str) -> None:
    """ffmpeg was replaced under a running worker: others must not take it for what it was."""
    worker = Worker.objects.filter(pk=worker_id, pid=os.getpid()).first()
    if worker is None:
        return
    others = {name for name in worker.capabilities if not name.startswith(_capability(""))}
    capabilities = sorted(others | here().capabilities)
    if capabilities != worker.capabilities:
        Worker.objects.filter(pk=worker.pk).update(capabilities=capabilities)


def somebody_has(pin: str, type_name: str, *, beside: str = "") -> bool:
    """Whether a worker that is alive, enabled and stays could run such a job."""
    return somebody_can(_capability(pin), type_name, beside=beside)


def _who_runs(type_name: str, *, beside: str = "") -> Iterator[list[str]]:
    """The capabilities of each worker that is alive, enabled, stays, and handles this type."""
    late = Worker.objects.silent_for(jobs_conf.current().heartbeat_interval * 2)
    left_out = {beside, *late.values_list("pk", flat=True)}
    for worker in fleet.living("capabilities", "job_types"):
        if type_name in worker.job_types and not worker.order and worker.pk not in left_out:
            yield worker.capabilities


def somebody_can(capability: str, type_name: str, *, beside: str = "") -> bool:
    """Whether a worker that is alive, enabled and stays has this capability and handles this type."""
    return any(capability in capabilities for capabilities in _who_runs(type_name, beside=beside))


def _builds(capabilities: Collection[str]) -> list[str]:
    """The builds of ffmpeg among them, without those that are bound to an encoder of a GPU."""
    prefix = _capability("")
    found = [name.removeprefix(prefix) for name in capabilities if name.startswith(prefix)]
    return [pin for pin in found if " " not in pin]


# -- one job ---------------------------------------------------------------------------------------------------------


def choose(transcode: Transcode, has: Collection[str]) -> tuple[str, str]:
    """The encoder of a new plan, and what the plan is bound to. `has`: the capabilities of the worker that has looked
    at the source.

    The encoder that the generation was begun for, if that worker has it, else the best it has, with its own toolchain;
    unless only others encode, and with another one. NobodyEncodes when nobody does.
    """
    pins = {name: pin for name in conf.current().preferred_encoders if (pin := _pin_in(has, name))}
    own = next(iter(_builds(has)), "")
    asked = transcode.encoder
    encoder = asked if asked == SOFTWARE or asked in pins else next(iter(pins), SOFTWARE)
    if encoder != SOFTWARE:
        return encoder, pins[encoder]
    offered = Counter(build for others in _who_runs(pipeline.ENCODE) for build in _builds(others))
    if own and (own in offered or not offered):
        return SOFTWARE, own
    if not offered:
        raise NobodyEncodes(
            timedelta(seconds=LONGEST_WAIT), "No worker that encodes is there.", counted=False
        )
    return SOFTWARE, min(offered, key=lambda pin: (-offered[pin], pin))


def _pin_in(capabilities: Collection[str], encoder: str) -> str:
    """What a plan for this encoder of a GPU would be bound to, on a worker with these capabilities."""
    found = sorted(
        name for name in capabilities if name.startswith(_capability("")) and f" {encoder}-" in name
    )
    return found[0].removeprefix(_capability("")) if found else ""


def pin_of(plan: EncodePlan, *, picture: bool) -> str:
    """What its jobs need of a worker: the encoder for the picture, for sound the build of ffmpeg alone."""
    return plan.ffmpeg if picture else plan.build


def has_pin(capabilities: Collection[str], pin: str) -> bool:
    return _capability(pin) in capabilities


def ensure(bench: Bench, plan: EncodePlan, *, picture: bool) -> Toolchain:
    """The toolchain that the plan is bound to. Where it is not here, the job goes elsewhere."""
    if not has_pin(here().capabilities, pin_of(plan, picture=picture)):
        bench.go_elsewhere(plan, picture=picture)
    return here()


def go_elsewhere(
    transcode: Transcode, lease: Lease, type_name: str, *, pin: str, has: Collection[str]
) -> NoReturn:
    """For a job whose worker lacks the pin: later, if somebody else has it, else the generation is started over, by
    what the workers have that there are now. `has`: the worker's capabilities."""
    if somebody_has(pin, type_name, beside=lease.worker_id) or not _builds(has):
        put_off(lease, f"This is for a worker with {pin}.")
    generations.start_over(
        transcode, lease=lease, reason=f"No worker has {pin} any more; started over with another."
    )
    raise LeaseLost(lease.job_id)  # the job was cancelled with the rest of its generation


def give_up_gpu(transcode: Transcode, lease: Lease, plan: EncodePlan, error: MediaError) -> None:
    """The last attempt at a chunk has failed on a GPU: the generation is started over with libx264. Cards have limits
    of their own, and drivers break."""
    if plan.encoder != SOFTWARE:
        reason = f"{plan.encoder} could not encode it, so it is started over with {SOFTWARE}: {error}"
        generations.start_over(transcode, lease=lease, reason=reason, encoder=SOFTWARE)
        raise LeaseLost(lease.job_id)


def put_off(lease: Lease, reason: str) -> NoReturn:
    """Try again later, elsewhere; the longer, the more often it was claimed."""
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (min(lease.token, 10) - 1))
    raise NotThisWorker(timedelta(seconds=longest * random.uniform(0.5, 1)), reason, counted=False)


# -- chunks that only a GPU may encode -------------------------------------------------------------------------------


def watch(transcode: Transcode, *, turn: int = 0) -> None:
    """While a generation is bound to a GPU, look now and then whether there still is one."""
    if transcode.encoder in hardware_names():
        enqueue(
            WATCH,
            transcode_id=transcode.pk,
            turn=turn,
            delay=jobs_conf.current().gpu_patience,
            unique_key=f"{WATCH}:{transcode.pk}:{turn % 2}",
        )


def look_after(transcode_id: int, turn: int) -> None:
    """Chunks that nobody can encode any more are not waited for: the generation is started over with libx264."""
    transcode = Transcode.objects.filter(pk=transcode_id).first()
    plan = plan_of(transcode) if transcode and transcode.is_active else None
    stage = pipeline.find(pipeline.ENCODE)
    if transcode is None or plan is None or stage is None:
        return
    type_name = stage.type_for(plan.encoder)
    chunks = Job.objects.active().filter(workflow_id=transcode.workflow_id, type=type_name)
    if not chunks.exists():
        return
    if chunks.filter(status=Status.PROCESSING).exists() or somebody_has(plan.ffmpeg, type_name):
        watch(transcode, turn=turn + 1)
        return
    generations.start_over(
        transcode,
        reason=f"No worker has {plan.ffmpeg} any more; started over with {SOFTWARE}.",
        encoder=SOFTWARE,
    )
