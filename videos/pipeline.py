"""The workflow: each stage says, beside its handler, what it follows, how many jobs it has, and how much work each is.

    @stage("videos.waveform", step=Step.TRANSCODE, units=per_track, after=["videos.audio"], critical=False)
    def waveform(job: JobContext, transcode_id: int, track: int) -> None: …

declares a job type and its place in the picture, in the job_types.py of any installed app. The pipeline's own:

probe → plan ┬→ encode (a job per chunk) → thumbnail ┐
             ├→ audio (a job per track)              ├→ master_playlist → finalize → ready
             ├→ subtitles (text tracks of the source)┘
             └→ transcribe (speech; nobody waits for it)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from operator import or_
from typing import Any, TypeVar

from django.db.models import Q

from jobs import JobContext, job_type, optional, workflow
from jobs.models import Job
from videos.media.encoders import ENCODERS, SOFTWARE, hardware_names
from videos.media.plan import EncodePlan
from videos.models import Step, Transcode

H = TypeVar("H", bound=Callable[..., Any])
Unit = dict[str, Any]
Units = Callable[[EncodePlan, Transcode], Iterable[Unit]]
Work = Callable[[EncodePlan, Unit], float]

PROBE = "videos.probe"
ENCODE = "videos.encode"
CHUNKS_ON_A_GPU = 1
"""At a time and worker: a chunk has a session of the GPU for each quality already, and cards allow only a few."""
SOUND_WORK = 20_000.0
"""A frame's worth of sound, in pixels to encode (measured: 1 CPU-second per 30 s)."""


# -- how many jobs a stage has, and how much work each is ------------------------------------------------------------


def none(plan: EncodePlan, transcode: Transcode) -> Iterable[Unit]:
    return []


def once(plan: EncodePlan, transcode: Transcode) -> Iterable[Unit]:
    return [{}]


def per_chunk(plan: EncodePlan, transcode: Transcode) -> Iterable[Unit]:
    return [{"chunk": chunk.number} for chunk in plan.chunks()]


def per_track(plan: EncodePlan, transcode: Transcode) -> Iterable[Unit]:
    return [{"track": track.number} for track in plan.audio]


def pixels(plan: EncodePlan, unit: Unit) -> float:
    return plan.chunk(unit["chunk"]).frames * float(sum(r.width * r.height for r in plan.renditions))


def sound(plan: EncodePlan, unit: Unit) -> float:
    return plan.total_frames * SOUND_WORK


def little(plan: EncodePlan, unit: Unit) -> float:
    return plan.total_frames * SOUND_WORK / 10


def aside(plan: EncodePlan, unit: Unit) -> float:
    """No part of the progress: it is done in no time, or nobody waits for it."""
    return 0.0


# -- stages ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One box of the picture: a job type, and what its jobs are."""

    type: str
    step: Step
    units: Units
    """The payload of each of its jobs, beside transcode_id."""
    work: Work
    """How much work such a job is, in pixels to encode."""
    after: tuple[str, ...]
    """Stages that come first. All their jobs must have completed or, if they are not critical, ended."""
    before: tuple[str, ...]
    """Stages that wait for this one in the same way, as if they had named it themselves."""
    critical: bool
    """The transcode fails if one of its jobs fails."""
    per_encoder: bool
    """Its jobs run the plan's encoder: one on a GPU has a type of its own, which only workers that have it claim."""

    def type_for(self, encoder: str) -> str:
        return f"{self.type}.{encoder}" if self.per_encoder and ENCODERS[encoder].hardware else self.type

    @property
    def types(self) -> list[str]:
        return list(dict.fromkeys(self.type_for(encoder) for encoder in [SOFTWARE, *hardware_names()]))

    def key(self, unit: Unit) -> str:
        return ":".join([self.type, *(str(value) for value in unit.values())])


class StagesDisagree(ValueError):
    """A stage follows one that does not exist, or itself."""


_stages: dict[str, Stage] = {}


def stage(
    name: str,
    *,
    step: Step,
    units: Units,
    work: Work = aside,
    after: Sequence[str] = (),
    before: Sequence[str] = (),
    critical: bool = True,
    per_encoder: bool = False,
    **policy: Any,
) -> Callable[[H], H]:
    """Register the decorated function as the handler of a stage; `policy` is what @job_type takes."""

    def declare(handler: H) -> H:
        own = _stages[name] = Stage(
            type=name,
            step=step,
            units=units,
            work=work,
            after=tuple(after),
            before=tuple(before),
            critical=critical,
            per_encoder=per_encoder,
        )
        in_order.cache_clear()
        for encoder in hardware_names() if per_encoder else []:
            special = {**policy, "per_worker": CHUNKS_ON_A_GPU, "requires": [encoder]}
            job_type(own.type_for(encoder), **special)(handler)
        return job_type(name, **policy)(handler)

    return declare


@functools.cache
def in_order() -> tuple[Stage, ...]:
    """Every stage, after those that it follows."""
    try:
        return tuple(_stages[name] for name in TopologicalSorter(_edges()).static_order())
    except CycleError as error:
        raise StagesDisagree(f"These stages wait for each other: {', '.join(error.args[1])}.") from None


def _edges() -> dict[str, list[str]]:
    """What each stage follows."""
    edges = {name: list(stage.after) for name, stage in _stages.items()}
    for own in _stages.values():
        for name in own.before:
            edges.setdefault(name, []).append(own.type)
    unknown = ({*edges} | {name for names in edges.values() for name in names}) - {*_stages}
    if unknown:
        raise StagesDisagree(f"Stages wait for {', '.join(sorted(unknown))}, but no stage has this name.")
    return edges


def find(type_name: str) -> Stage | None:
    """The stage whose jobs are of this type, whatever the encoder."""
    return _stages.get(type_name) or _stages.get(type_name.rpartition(".")[0])


def is_stage(type_name: str) -> bool:
    return find(type_name) is not None


def is_critical(type_name: str) -> bool:
    stage = find(type_name)
    return stage is not None and stage.critical


def are_stages() -> Q:
    """Jobs of any stage, also for encoders that this process does not know."""
    return reduce(or_, (_are_of(stage) for stage in _stages.values()))


def are_chunks() -> Q:
    """Jobs that are chunks of the picture."""
    return _are_of(_stages[ENCODE])


def _are_of(stage: Stage) -> Q:
    own = Q(type=stage.type)
    return own | Q(type__startswith=f"{stage.type}.") if stage.per_encoder else own


def critical_types() -> frozenset[str]:
    return frozenset(name for stage in _stages.values() if stage.critical for name in stage.types)


def encodes_picture(type_name: str) -> bool:
    """Whether its jobs are chunks: what the progress of a quality is counted in."""
    stage = find(type_name)
    return stage is not None and stage.type == ENCODE


def furthest(steps: Iterable[Step]) -> Step:
    order = list(dict.fromkeys([*(stage.step for stage in in_order()), *Step]))
    return max(steps, key=order.index)


# -- the workflow ----------------------------------------------------------------------------------------------------


def start(transcode: Transcode) -> None:
    """Begin a new transcode: its workflow with the first job, in the caller's transaction."""
    with workflow(f"video {transcode.video_id}, generation {transcode.number}") as flow:
        transcode.workflow_id = flow.record.pk
        transcode.save(update_fields=["workflow_id"])
        flow.add(PROBE, transcode_id=transcode.pk)


def fan_out(job: JobContext, transcode: Transcode, plan: EncodePlan) -> None:
    """Add every job that the plan asks for, as children of the probe. A second attempt adds nothing twice."""
    edges = _edges()
    added: dict[str, list[Job]] = {}
    for stage in in_order():
        needed = [
            needed if _stages[name].critical else optional(needed)
            for name in edges[stage.type]
            for needed in added[name]
        ]
        type_name = stage.type_for(plan.encoder)
        added[stage.type] = [
            job.add(type_name, {"transcode_id": transcode.pk, **unit}, key=stage.key(unit), after=needed)
            for unit in stage.units(plan, transcode)
        ]


def work_of(plan: EncodePlan, type_name: str, payload: dict[str, Any]) -> float:
    """How much of the transcode's work a job of it is."""
    stage = find(type_name)
    return stage.work(plan, payload) if stage else 0.0


def total_work(plan: EncodePlan, transcode: Transcode) -> float:
    return sum(stage.work(plan, unit) for stage in in_order() for unit in stage.units(plan, transcode))
