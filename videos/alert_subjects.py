"""What alerts about jobs of the pipeline are about: a video, whichever of its jobs failed."""

from __future__ import annotations

from jobs.alerts.subjects import names_subject
from jobs.models import Job
from videos.models import Transcode


@names_subject
def video_of(job: Job) -> str | None:
    transcode_id = job.payload.get("transcode_id")
    if not job.type.startswith("videos.") or not isinstance(transcode_id, int):
        return None
    transcode = Transcode.objects.filter(pk=transcode_id).select_related("video").first()
    return f"video {transcode.video_id} “{transcode.video.title}”" if transcode else None
