"""What subscribers of Redis hear of a video: how far its transcode is, and how it ended (docs/redis.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from django.dispatch import receiver

from jobs.live.channels import Message, publish_on_commit
from jobs.signals import Progressed, jobs_progressed
from videos import pipeline, progress
from videos.models import RenditionKind, Transcode

PROGRESS = "transcode_progress:"
COMPLETE = "transcode_complete:"
"""Both are followed by the id of the video."""


@receiver(jobs_progressed)
def _jobs_progressed(progressed: Sequence[Progressed], **kwargs: Any) -> None:
    for workflow_id in {job.workflow_id for job in progressed if pipeline.is_stage(job.type)}:
        if workflow_id:
            tell_progress(workflow_id)


def tell_progress(workflow_id: str) -> None:
    """Once the current transaction has committed. A transcode is known by its workflow, as its jobs know it."""
    publish_on_commit(f"progress:{workflow_id}", partial(_read_progress, workflow_id))


def tell_end(transcode: Transcode, outcome: str) -> None:
    """It was published, has failed or was cancelled; told once the current transaction has committed."""
    publish_on_commit(f"end:{transcode.pk}", partial(_read_end, transcode.pk, outcome))


def _read_progress(workflow_id: str) -> Iterable[Message]:
    transcode = Transcode.objects.select_related("video").filter(workflow_id=workflow_id).first()
    if transcode is None:
        return
    now = progress.read(transcode)
    body = {
        **_about(transcode),
        "current_step": now.step,
        "progress_percent": round(now.percent, 1),
        "eta": now.eta,
        "qualities": [
            {
                "quality": share.quality,
                "status": share.status,
                "progress_percent": round(share.percent, 1),
                "segments_completed": share.segments_completed,
                "segments_total": share.segments_total,
            }
            for share in now.qualities
        ],
    }
    yield f"{PROGRESS}{transcode.video_id}", body


def _read_end(transcode_id: int, outcome: str) -> Iterable[Message]:
    transcode = Transcode.objects.select_related("video").filter(pk=transcode_id).first()
    if transcode is None:
        return
    pictures = transcode.renditions.filter(kind=RenditionKind.VIDEO).order_by("-height", "-bandwidth")
    body = {
        **_about(transcode),
        "outcome": outcome,
        "duration": transcode.video.duration,
        "qualities": list(pictures.values_list("name", flat=True)),
        "error_message": transcode.error,
    }
    yield f"{COMPLETE}{transcode.video_id}", body


def _about(transcode: Transcode) -> dict[str, Any]:
    return {
        "video_id": transcode.video_id,
        "slug": transcode.video.slug,
        "status": transcode.video.status,
        "version": transcode.number,
    }
