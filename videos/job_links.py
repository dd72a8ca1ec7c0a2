"""From a job of the pipeline to its video, for the admin's page of the job."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import reverse

from jobs.admin.links import Link, job_links
from jobs.models import Job
from videos.models import Transcode


@job_links
def video_of(job: Job) -> Iterator[Link]:
    transcode_id = job.payload.get("transcode_id")
    if not job.type.startswith("videos.") or not isinstance(transcode_id, int):
        return
    for transcode in Transcode.objects.filter(pk=transcode_id).select_related("video"):
        video = transcode.video
        yield Link(
            f"{video}, generation {transcode.number}", reverse("admin:videos_video_change", args=[video.pk])
        )
        yield Link("Watch it", video.get_absolute_url())
