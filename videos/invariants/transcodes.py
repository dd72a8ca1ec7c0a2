"""Transcodes and their jobs (SPEC 2.1, 2.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Concat

from jobs.invariants import rule
from jobs.models import ACTIVE as ACTIVE_JOBS
from jobs.models import Job, Status
from videos import pipeline
from videos.invariants.terms import ENDED, SEEN, differ
from videos.media.encoders import hardware_names
from videos.models import QualityProgress, Transcode, TranscodeStatus
from videos.models.transcode import ACTIVE
from videos.progress import plan_of
from videos.removal import REMOVABLE


def _jobs(*statuses: str) -> Any:
    return Job.objects.filter(workflow_id=OuterRef("workflow_id"), status__in=statuses)


def _running() -> Any:
    return _jobs(Status.PROCESSING).filter(pipeline.are_stages())


def _fallen() -> Any:
    return _jobs(Status.FAILED, Status.CANCELLED).filter(type__in=pipeline.critical_types())


@rule("one active transcode per video", by_hand="cancel the jobs of all but one")
def _one_active() -> Iterable[Any]:
    active = Transcode.objects.filter(status__in=ACTIVE).order_by().values("video")
    return active.annotate(count=Count("pk")).filter(count__gt=1)


@rule("an active transcode has a job that has yet to end")
def _active_has_jobs() -> Iterable[Any]:
    return Transcode.objects.filter(~Exists(_jobs(*ACTIVE_JOBS)), status__in=ACTIVE)


@rule("an active transcode is processing exactly when a job of it runs")
def _running_is_processing() -> Iterable[Any]:
    processing = Q(status=TranscodeStatus.PROCESSING)
    return Transcode.objects.filter(differ(Q(Exists(_running())), processing), status__in=ACTIVE)


@rule("an active transcode has no failed or cancelled critical job")
def _active_without_failure() -> Iterable[Any]:
    return Transcode.objects.filter(Exists(_fallen()), status__in=ACTIVE)


@rule("a transcode that has failed or was cancelled has a critical job that did, or none that is yet to end")
def _ended_by_a_job() -> Iterable[Any]:
    left = _jobs(*ACTIVE_JOBS).filter(pipeline.are_stages())
    return Transcode.objects.filter(~Exists(_fallen()), Exists(left), status__in=ENDED)


@rule("nothing is published that a critical job has yet to finish")
def _published_is_finished() -> Iterable[Any]:
    unfinished = _jobs(*ACTIVE_JOBS, Status.FAILED, Status.CANCELLED)
    critical = unfinished.filter(type__in=pipeline.critical_types())
    return Transcode.objects.filter(Exists(critical), status__in=SEEN)


@rule("a transcode has an end and says why exactly when it has failed or was cancelled")
def _ended_with_reason() -> Iterable[Any]:
    ended = Q(status__in=ENDED)
    return Transcode.objects.filter(differ(ended, Q(ended_at__isnull=False)) | differ(ended, ~Q(error="")))


@rule("a transcode is dated when it is published and when a newer one replaces it")
def _dated() -> Iterable[Any]:
    retired = Q(status=TranscodeStatus.RETIRED)
    return Transcode.objects.filter(
        differ(Q(status__in=SEEN), Q(published_at__isnull=False))
        | differ(retired, Q(retired_at__isnull=False))
        | (retired & ~Q(video__current__number__gt=F("number")))
    )


@rule(
    "the files of a generation are removed only when it is retired, failed or cancelled",
    by_hand="encode the video again",
)
def _removed() -> Iterable[Any]:
    return Transcode.objects.filter(files_removed_at__isnull=False).exclude(status__in=REMOVABLE)


@rule("no progress is below 0 or above 100, and only what is published has reached 100")
def _percent() -> Iterable[Any]:
    return Transcode.objects.filter(
        Q(progress_percent__lt=0)
        | Q(progress_percent__gt=100)
        | (Q(progress_percent=100) & ~Q(status__in=SEEN))
    )


@rule("only an active transcode has an end in sight")
def _eta() -> Iterable[Any]:
    return Transcode.objects.filter(eta__isnull=False).exclude(status__in=ACTIVE)


@rule(
    "plan and encoder are pinned together, and with them the qualities",
    by_hand="encode the video again",
)
def _pinned() -> Iterable[Any]:
    planned = Q(plan__isnull=False)
    qualities = Q(Exists(QualityProgress.objects.filter(transcode=OuterRef("pk"))))
    pinned = Transcode.objects.annotate(pinned=KeyTextTransform("encoder", "plan")).defer("plan")
    return pinned.filter(
        differ(planned, qualities) | (planned & ~Q(encoder=F("pinned"))) | (Q(status__in=SEEN) & ~planned)
    )


@rule("every chunk of a generation is for its one encoder", by_hand="encode the video again")
def _one_encoder() -> Iterable[Any]:
    chunks = Job.objects.filter(pipeline.are_chunks(), workflow_id=OuterRef("workflow_id"))
    own = Concat(Value(f"{pipeline.ENCODE}."), OuterRef("encoder"))
    foreign = Q(Exists(chunks.exclude(type=pipeline.ENCODE).exclude(type=own)))
    common = Q(Exists(chunks.filter(type=pipeline.ENCODE)), encoder__in=hardware_names())
    return Transcode.objects.filter(foreign | common).defer("plan")


@rule(
    "an active transcode has a job for each chunk of its plan, and one only",
    by_hand="cancel the transcode, then encode the video again",
)
def _every_chunk() -> Iterable[Any]:
    for transcode in Transcode.objects.filter(status__in=ACTIVE, plan__isnull=False).iterator():
        jobs = Job.objects.filter(pipeline.are_chunks(), workflow_id=transcode.workflow_id)
        found = Counter(payload.get("chunk") for payload in jobs.values_list("payload", flat=True))
        plan = plan_of(transcode)
        if plan and found != Counter(range(1, plan.total_chunks + 1)):
            yield f"{transcode}: {found.total()} jobs for {plan.total_chunks} chunks"
