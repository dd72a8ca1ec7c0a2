"""How a video stands, for pages that show it live (jobs/live tells how)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.template.loader import render_to_string

from jobs import live
from jobs.live.offers import ids_among
from jobs.models import Job, Status
from videos import progress
from videos.access import VIEW
from videos.models import QualityStatus, Transcode, Video
from videos.progress import QualityShare

MOST_VIDEOS = 200
"""Videos that one page may follow by their ids."""


@dataclass(frozen=True)
class Standing:
    """A video's status with the progress of its newest transcode."""

    status: str
    error: str
    percent: float = 0.0
    step: str = ""
    eta: datetime | None = None
    qualities: tuple[QualityShare, ...] = ()

    @property
    def made(self) -> list[QualityShare]:
        """Without those that the source is too small for."""
        return [share for share in self.qualities if share.status != QualityStatus.SKIPPED]

    @property
    def skipped(self) -> list[str]:
        return [share.quality for share in self.qualities if share.status == QualityStatus.SKIPPED]


def standing_of(video: Video, newest: Transcode | None = None) -> Standing:
    """Who has the newest transcode already gives it."""
    newest = newest or video.transcodes.order_by("-number").first()
    if newest is None:
        return Standing(video.status, video.error_message)
    now = progress.read(newest)
    eta = now.eta.replace(microsecond=0) if now.eta else None
    return Standing(video.status, video.error_message, now.percent, now.step, eta, now.qualities)


def waiting_topic(video: Video) -> live.Topic:
    """For those who wait for a video: nothing in it is only for staff."""
    return live.Topic(f"video:{video.pk}", partial(_read_waiting, video.pk))


def _read_waiting(video_id: str) -> live.State:
    video = Video.objects.kept().filter(pk=video_id).first()
    if video is None:
        return {"video.status": "gone"}
    now = standing_of(video)
    return {
        "video.status": "ready" if video.current_id else now.status,
        "video.percent": round(now.percent, 1),
        "video.waiting": render_to_string("videos/waiting_state.html", {"now": now}),
    }


def list_topic(ids: Iterable[str]) -> live.Topic:
    """The videos of a list; BadTopic for what are no ids. In a few queries, however many there are."""
    wanted = ids_among(ids, most=MOST_VIDEOS)
    return live.Topic(f"videos:{','.join(wanted)}", partial(_read_list, wanted), every=1.0)


def _read_list(ids: list[str]) -> live.State:
    state: dict[str, object] = {}
    percents = _percents(ids)
    for video in Video.objects.filter(pk__in=ids).only("pk", "status", "error_message"):
        state[f"video.{video.pk}.status"] = video.status
        state[f"video.{video.pk}.error"] = video.error_message[:300]
        state[f"video.{video.pk}.running"] = video.pk in percents
        state[f"video.{video.pk}.percent"] = percents.get(video.pk, 100.0)
    return state


def _percents(ids: list[str]) -> dict[str, float]:
    """How far the active transcodes of these videos are, running jobs included."""
    active = list(Transcode.objects.active().filter(video__in=ids))
    running: dict[str, list[Job]] = defaultdict(list)
    jobs = Job.objects.filter(workflow_id__in=[t.workflow_id for t in active], status=Status.PROCESSING)
    for job in jobs.only("id", "type", "payload", "progress_percent", "workflow_id") if active else ():
        running[str(job.workflow_id)].append(job)
    return {t.video_id: round(_percent(t, running[t.workflow_id]), 1) for t in active}


def _percent(transcode: Transcode, jobs: list[Job]) -> float:
    plan = progress.plan_of(transcode)
    measured = progress.measured_percent(transcode, plan, jobs) if plan else 0.0
    return max(measured, transcode.progress_percent)


# -- for programs: /api/events/?video=… --------------------------------------------------------------------------------

MOST_FOLLOWED = 20
"""Videos that one stream follows with all their qualities."""


def _followed_videos(values: Sequence[str]) -> list[live.Topic]:
    return [
        live.Topic(f"followed-video:{video_id}", partial(_read_followed, video_id))
        for video_id in ids_among(values, most=MOST_FOLLOWED)
    ]


live.offer(live.Offer("video", VIEW, _followed_videos, f"the id of a video; up to {MOST_FOLLOWED} of them"))


def _read_followed(video_id: str) -> live.State:
    video = Video.objects.filter(pk=video_id).select_related("current").defer("current__plan").first()
    if video is None:
        return {f"video.{video_id}.status": "purged"}
    now = standing_of(video)
    return {
        f"video.{video_id}.{key}": value
        for key, value in {
            "status": now.status,
            "error": now.error,
            "percent": round(now.percent, 1),
            "step": now.step,
            "eta": now.eta,
            "generation": video.current.number if video.current else None,
            "deleted": video.deleted_at is not None,
            **{
                f"quality.{share.quality}.{name}": value
                for share in now.qualities
                for name, value in (("status", share.status), ("percent", round(share.percent, 1)))
            },
        }.items()
    }
