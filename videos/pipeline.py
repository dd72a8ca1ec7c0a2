"""The workflow as data: which stage follows which, how many jobs it has, and how much work each of them is.

probe → plan ┬→ encode (a job per chunk) → thumbnail ┐
             ├→ audio (a job per track)              ├→ master_playlist → finalize → ready
             ├→ subtitles (text tracks of the source)┘
             └→ transcribe (speech; nobody waits for it)

A new stage is one line in STAGES, and its handler in job_types.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from jobs import JobContext, optional, workflow
from jobs.models import Job
from videos import conf
from videos.media.plan import EncodePlan
from videos.models import Step, Transcode

Units = Callable[[EncodePlan, Transcode], Iterable[dict[str, Any]]]
Work = Callable[[EncodePlan, dict[str, Any]], float]

SOUND_WORK = 20_000.0
"""A frame's worth of sound, in pixels to encode (measured: 1 CPU-second per 30 s)."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One box of the picture: a job type, and what its jobs are."""

    type: str
    step: Step
    units: Units
    """The payload of each of its jobs."""
    work: Work
    """How much work such a job is, in pixels."""
    after: tuple[str, ...] = ()
    """Every job of these stages must be completed."""
    settled: tuple[str, ...] = ()
    """Every job of these stages must have ended, however."""
    critical: bool = True
    """The transcode fails if one of its jobs fails."""

    def key(self, unit: dict[str, Any]) -> str:
        return ":".join([self.type, *(str(value) for value in unit.values())])


def _once(plan: EncodePlan, transcode: Transcode) -> Iterable[dict[str, Any]]:
    return [{}]


def _per_chunk(plan: EncodePlan, transcode: Transcode) -> Iterable[dict[str, Any]]:
    return [{"chunk": chunk.number} for chunk in plan.chunks()]


def _per_track(plan: EncodePlan, transcode: Transcode) -> Iterable[dict[str, Any]]:
    return [{"track": track.number} for track in plan.audio]


def _if_text(plan: EncodePlan, transcode: Transcode) -> Iterable[dict[str, Any]]:
    return [{}] if transcode.with_subtitles and transcode.text_tracks else []


def _if_speech(plan: EncodePlan, transcode: Transcode) -> Iterable[dict[str, Any]]:
    """Speech is recognised where nobody has written it down."""
    wanted = transcode.with_subtitles and not transcode.text_tracks and plan.audio
    return [{}] if wanted and conf.current().transcriber != "off" else []


def _pixels(plan: EncodePlan, unit: dict[str, Any]) -> float:
    return plan.chunk(unit["chunk"]).frames * float(sum(r.width * r.height for r in plan.renditions))


def _sound(plan: EncodePlan, unit: dict[str, Any]) -> float:
    return plan.total_frames * SOUND_WORK


def _little(plan: EncodePlan, unit: dict[str, Any]) -> float:
    return plan.total_frames * SOUND_WORK / 10


def _aside(plan: EncodePlan, unit: dict[str, Any]) -> float:
    """No part of the progress: it is done in no time, or nobody waits for it."""
    return 0.0


PROBE = "videos.probe"
STAGES: tuple[Stage, ...] = (
    Stage(type="videos.encode", step=Step.TRANSCODE, units=_per_chunk, work=_pixels),
    Stage(type="videos.audio", step=Step.TRANSCODE, units=_per_track, work=_sound),
    Stage(
        type="videos.thumbnail",
        step=Step.THUMBNAIL,
        units=_once,
        work=_little,
        after=("videos.encode",),
        critical=False,
    ),
    Stage(type="videos.subtitles", step=Step.TRANSCODE, units=_if_text, work=_aside, critical=False),
    Stage(type="videos.transcribe", step=Step.TRANSCODE, units=_if_speech, work=_aside, critical=False),
    Stage(
        type="videos.master_playlist",
        step=Step.MASTER_PLAYLIST,
        units=_once,
        work=_little,
        after=("videos.encode", "videos.audio"),
        settled=("videos.thumbnail", "videos.subtitles"),
    ),
    Stage(
        type="videos.finalize",
        step=Step.FINALIZE,
        units=_once,
        work=_little,
        after=("videos.master_playlist",),
    ),
)

_BY_TYPE = {stage.type: stage for stage in STAGES}
TYPES = frozenset((PROBE, *_BY_TYPE))
CRITICAL = frozenset((PROBE, *(stage.type for stage in STAGES if stage.critical)))
STEPS = {PROBE: Step.PROBE} | {stage.type: stage.step for stage in STAGES}
ORDER = list(dict.fromkeys([Step.PROBE, *(stage.step for stage in STAGES)]))


def start(transcode: Transcode) -> None:
    """Begin a new transcode: its workflow with the first job, in the caller's transaction."""
    with workflow(f"video {transcode.video_id}, generation {transcode.number}") as flow:
        transcode.workflow_id = flow.record.pk
        transcode.save(update_fields=["workflow_id"])
        flow.add(PROBE, transcode_id=transcode.pk)


def fan_out(job: JobContext, transcode: Transcode, plan: EncodePlan) -> None:
    """Add every job that the plan asks for, as children of the probe. A second attempt adds nothing twice."""
    added: dict[str, list[Job]] = {}
    for stage in STAGES:
        needed = [needed for name in stage.after for needed in added[name]]
        awaited = [optional(awaited) for name in stage.settled for awaited in added[name]]
        added[stage.type] = [
            job.add(
                stage.type,
                {"transcode_id": transcode.pk, **unit},
                key=stage.key(unit),
                after=[*needed, *awaited],
            )
            for unit in stage.units(plan, transcode)
        ]


def work_of(plan: EncodePlan, type_name: str, payload: dict[str, Any]) -> float:
    """How much of the transcode's work a job of it is."""
    stage = _BY_TYPE.get(type_name)
    return stage.work(plan, payload) if stage else 0.0


def total_work(plan: EncodePlan, transcode: Transcode) -> float:
    return sum(stage.work(plan, unit) for stage in STAGES for unit in stage.units(plan, transcode))
