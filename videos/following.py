"""Videos follow their jobs: inside the queue's own transactions, a transcode's and its video's status are kept true.

Locks are taken in one order everywhere: jobs, then the transcode, then its video.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Coalesce, Greatest, Least, Now
from django.dispatch import receiver

from jobs import database
from jobs.models import Job, Status
from jobs.signals import Transition, jobs_changed
from videos import channels, conf, pipeline, progress, removal, toolchains
from videos.exceptions import FilesRemoved, GenerationReplaced, VideoDeleted
from videos.media.plan import EncodePlan
from videos.models import (
    QualityProgress,
    QualityStatus,
    Step,
    Transcode,
    TranscodeStatus,
    Video,
    VideoStatus,
)
from videos.statuses import ENDED, VIDEO_STATUS

log = logging.getLogger("videos")

WRITTEN = (
    "status",
    "error",
    "current_step",
    "work_done",
    "progress_percent",
    "eta",
    "started_at",
    "ended_at",
)
"""What following a transcode may change; its plan is large and never among it."""


@receiver(jobs_changed)
def follow(transitions: Sequence[Transition], **kwargs: Any) -> None:
    """Called by the queue whenever jobs have changed, before that is committed."""
    changed: dict[str, list[Transition]] = defaultdict(list)
    for transition in transitions:
        if transition.workflow_id and pipeline.is_stage(transition.type) and _matters(transition):
            changed[transition.workflow_id].append(transition)
    if not changed:
        return
    # Locked, so that of two workers that change the same transcode the second sees what the first has done.
    transcodes = Transcode.objects.filter(workflow_id__in=list(changed)).order_by("pk")
    for transcode in transcodes.select_for_update(no_key=True):
        _follow(transcode, changed[transcode.workflow_id])


def _matters(transition: Transition) -> bool:
    """Between waiting and pending nothing begins and nothing ends, nor when a failure is settled."""
    change = {transition.before, transition.after}
    return not (change <= {Status.WAITING, Status.PENDING} or change == {Status.FAILED, Status.CANCELLED})


def _follow(transcode: Transcode, transitions: list[Transition]) -> None:
    if transcode.status in (TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED):
        return  # only what nobody waits for is still going on
    before = transcode.status
    running = _running_beside(transcode, transitions)
    _count_work(transcode, transitions, running)
    if any(t.before in (Status.FAILED, Status.CANCELLED) for t in transitions) and before in ENDED:
        _refuse_deleted(transcode, transitions)
        _revive(transcode)
    failure = next(
        (t for t in transitions if t.after == Status.FAILED and pipeline.is_critical(t.type)), None
    )
    if failure and transcode.status not in ENDED:
        _end(transcode, TranscodeStatus.FAILED, failure.error or "A job failed.")
    elif transcode.is_active:
        if any(t.after == Status.CANCELLED and pipeline.is_critical(t.type) for t in transitions):
            _end(transcode, TranscodeStatus.CANCELLED, "The transcode was cancelled.")
        else:
            _run_or_wait(transcode, transitions, running)
    transcode.save(update_fields=WRITTEN)
    channels.tell_progress(transcode.workflow_id)
    if transcode.status != before:
        _tell_video(transcode)
        if transcode.status in ENDED:
            channels.tell_end(transcode, transcode.status)
    if transcode.status in ENDED:
        removal.after_failure(transcode)


# -- the transcode ---------------------------------------------------------------------------------------------------


def _running_beside(transcode: Transcode, transitions: list[Transition]) -> list[Job]:
    """Stages of the transcode that run and were not changed now. Nobody asks when jobs are only claimed."""
    if all(t.after == Status.PROCESSING for t in transitions):
        return []
    running = _jobs_of(transcode).filter(pipeline.are_stages(), status=Status.PROCESSING)
    others = running.exclude(pk__among=frozenset(t.job_id for t in transitions))
    return list(others.only("id", "type", "payload", "progress_percent"))


def _run_or_wait(transcode: Transcode, transitions: list[Transition], beside: list[Job]) -> None:
    """Processing while a job of it runs, else pending; the same for its qualities and chunks."""
    claimed = [t.type for t in transitions if t.after == Status.PROCESSING]
    if claimed:
        _advance_step(transcode, claimed)
    if claimed or beside:
        transcode.status = TranscodeStatus.PROCESSING
        transcode.started_at = transcode.started_at or database.read_clock()
    else:
        transcode.status = TranscodeStatus.PENDING
    if any(pipeline.encodes_picture(name) for name in (*claimed, *(job.type for job in beside))):
        transcode.qualities.filter(status=QualityStatus.PENDING).update(
            status=QualityStatus.IN_PROGRESS, started_at=Coalesce("started_at", Now())
        )
    elif len(claimed) < len(transitions):  # else chunks may run beside, and nobody has asked
        _rest_qualities(transcode)


def _advance_step(transcode: Transcode, types: list[str]) -> None:
    reached = [stage.step for name in types if (stage := pipeline.find(name))]
    transcode.current_step = pipeline.furthest([Step(transcode.current_step), *reached])


def _end(transcode: Transcode, status: TranscodeStatus, error: str) -> None:
    transcode.status = status
    transcode.error = error
    transcode.eta = None
    transcode.ended_at = database.read_clock()
    _rest_qualities(transcode)


def _rest_qualities(transcode: Transcode) -> None:
    transcode.qualities.filter(status=QualityStatus.IN_PROGRESS).update(status=QualityStatus.PENDING)


def _revive(transcode: Transcode) -> None:
    """Jobs of an ended transcode start over: it is active again once none of them stands in its way."""
    roots = Q(status=Status.FAILED) | Q(status=Status.CANCELLED, cancelled_because="")
    if _jobs_of(transcode).filter(roots, type__in=pipeline.critical_types()).exists():
        return
    refuse_revival(transcode)
    transcode.status = TranscodeStatus.PENDING
    transcode.error = ""
    transcode.ended_at = None
    _retry_qualities(transcode)
    toolchains.watch(transcode)


def _refuse_deleted(transcode: Transcode, transitions: list[Transition]) -> None:
    starts_over = any(t.after in (Status.PENDING, Status.WAITING) for t in transitions)
    if starts_over and transcode.video.deleted_at:
        raise VideoDeleted(f"{transcode.video.title!r} is deleted; restore it first.")


def refuse_revival(transcode: Transcode) -> None:
    """Two generations of a video are never made at the same time, and a replaced one is never made at all."""
    others = Transcode.objects.filter(video=transcode.video_id).exclude(pk=transcode.pk)
    if transcode.files_removed_at:
        raise FilesRemoved(
            f"The files of generation {transcode.number} have been removed; retranscode the video instead."
        )
    newer = others.filter(number__gt=transcode.number).order_by("-number").first()
    if newer:
        raise GenerationReplaced(
            f"Generation {transcode.number} has been replaced by generation {newer.number}; "
            "retry that one, or retranscode the video."
        )


def _jobs_of(transcode: Transcode) -> Any:
    return Job.objects.filter(workflow_id=transcode.workflow_id)


# -- its video -------------------------------------------------------------------------------------------------------


def _tell_video(transcode: Transcode) -> None:
    """A video that is ready stays ready, whatever becomes of a retranscode."""
    Video.objects.filter(pk=transcode.video_id).exclude(status=VideoStatus.READY).update(
        status=VIDEO_STATUS[TranscodeStatus(transcode.status)], error_message=transcode.error
    )


# -- its progress ----------------------------------------------------------------------------------------------------


def _count_work(transcode: Transcode, transitions: list[Transition], beside: list[Job]) -> None:
    """What completed jobs have done, and the highest percentage that anybody can have seen so far."""
    left = [
        t for t in transitions if t.before == Status.PROCESSING or Status.COMPLETED in (t.before, t.after)
    ]
    plan = progress.plan_of(transcode) if left else None
    if plan is None:
        return
    rows = _jobs_of(transcode).filter(pk__among=frozenset(t.job_id for t in left))
    jobs = {job.pk: job for job in rows.only("id", "type", "payload", "progress_percent")}
    segments = 0
    for transition in left:
        sign = (transition.after == Status.COMPLETED) - (transition.before == Status.COMPLETED)
        job = jobs[transition.job_id]
        transcode.work_done += sign * pipeline.work_of(plan, job.type, job.payload)
        if pipeline.encodes_picture(transition.type):
            segments += sign * len(plan.chunk(job.payload["chunk"]).segments)
    transcode.work_done = max(0.0, transcode.work_done)
    # What a job had reported when it came back counts as seen, although it is to be done again.
    returned = [jobs[t.job_id] for t in left if t.before == Status.PROCESSING and t.after != Status.COMPLETED]
    percent = progress.measured_percent(transcode, plan, [*returned, *beside])
    transcode.progress_percent = max(transcode.progress_percent, percent)
    if transcode.is_active:  # what still runs of one that has failed brings no end nearer
        transcode.eta = progress.estimate_end(
            transcode.started_at, transcode.progress_percent, database.read_clock()
        )
    if segments:
        _count_segments(transcode, plan, segments)


def _count_segments(transcode: Transcode, plan: EncodePlan, segments: int) -> None:
    going = transcode.qualities.filter(quality__in=[r.name for r in plan.renditions])
    going = going.exclude(status=QualityStatus.FAILED)
    # Within its bounds, also where somebody has changed a job's status by hand; reconcile counts again.
    completed = Greatest(Value(0), Least(F("segments_total"), F("segments_completed") + segments))
    is_all = Q(segments_total=completed)
    going.update(
        segments_completed=completed,
        progress_percent=completed * 100.0 / F("segments_total"),
        status=Case(
            When(is_all, then=Value(QualityStatus.COMPLETED.value)),
            When(status=QualityStatus.COMPLETED, then=Value(QualityStatus.IN_PROGRESS.value)),
            default=F("status"),
        ),
        completed_at=Case(When(is_all, then=Now()), default=None),
    )


def _retry_qualities(transcode: Transcode) -> None:
    """Qualities whose failure has failed the transcode are made after all; chunks that were completed meanwhile have
    them already. No chunk has those that were given up: they stay so."""
    plan = progress.plan_of(transcode)
    if plan is None:
        return
    completed = _jobs_of(transcode).filter(status=Status.COMPLETED).values_list("type", "payload")
    chunks = [payload["chunk"] for name, payload in completed if pipeline.encodes_picture(name)]
    segments = sum(len(plan.chunk(number).segments) for number in chunks)
    failed = transcode.qualities.filter(status=QualityStatus.FAILED).values_list("quality", flat=True)
    again = [name for name in failed if conf.current().is_critical(name)]
    if segments < plan.total_segments:
        transcode.qualities.filter(quality__in=again).update(
            status=QualityStatus.PENDING,
            error_message="",
            segments_completed=segments,
            progress_percent=100.0 * segments / plan.total_segments,
        )


def plan_qualities(transcode: Transcode, plan: EncodePlan) -> None:
    """A row for each quality: those that are made, those that are kept, and those above the source."""
    rows = [
        QualityProgress(transcode=transcode, quality=r.name, segments_total=plan.total_segments)
        for r in plan.renditions
    ]
    rows += [
        QualityProgress(
            transcode=transcode,
            quality=name,
            status=QualityStatus.COMPLETED,
            segments_total=plan.total_segments,
            segments_completed=plan.total_segments,
            progress_percent=100,
            completed_at=Now(),
        )
        for name in transcode.kept_qualities
    ]
    rows += [
        QualityProgress(transcode=transcode, quality=name, status=QualityStatus.SKIPPED)
        for name in plan.skipped
    ]
    QualityProgress.objects.bulk_create(rows, ignore_conflicts=True)
