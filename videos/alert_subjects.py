"""What alerts about jobs of the pipeline are about: a video, whichever of its jobs failed."""

from __future__ import annotations

from jobs.alerts.subjects import names_subject
from jobs.models import Job
from videos.models import Transcode, Video


@names_subject
def video_of(job: Job) -> str | None:
    if not job.type.startswith("videos."):
        return None
    video_id = job.payload.get("video_id")
    if isinstance(transcode_id := job.payload.get("transcode_id"), int):
        video_id = Transcode.objects.filter(pk=transcode_id).values_list("video_id", flat=True).first()
    video = Video.objects.filter(pk=video_id).first() if isinstance(video_id, str) else None
    return f"video {video.pk} “{video.title}”" if video else None
