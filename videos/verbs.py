"""What people do to videos, as admin and API offer it: the verbs of intervening.py with their words and conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.models import Job
from videos import intervening
from videos.models import QualityStatus, Transcode, TranscodeStatus, Video
from videos.statuses import ENDED


@dataclass(frozen=True)
class Situation:
    """A video with its newest transcode: what decides on what is possible."""

    video: Video
    newest: Transcode | None
    has_failed_quality: bool = False
    missing_stages: Sequence[str] = ()
    """What it was published without, such as its pictures or subtitles, because their job has failed."""

    @property
    def is_deleted(self) -> bool:
        return self.video.deleted_at is not None

    @property
    def is_active(self) -> bool:
        return self.newest is not None and self.newest.is_active

    @property
    def seen(self) -> str:
        """What the buttons of a page are about. A second click finds another situation and does nothing."""
        newest = f"{self.newest.number}.{self.newest.status}" if self.newest else "-"
        return f"{newest}.{int(self.is_deleted)}"


def situation_of(video: Video, newest: Transcode | None = None) -> Situation:
    """Who has the newest transcode already gives it."""
    newest = newest or video.transcodes.defer("plan").order_by("-number").first()
    failed = newest is not None and newest.qualities.filter(status=QualityStatus.FAILED).exists()
    is_published = newest is not None and newest.status == TranscodeStatus.PUBLISHED
    return Situation(video, newest, failed, failed_stages(newest) if newest and is_published else ())


def failed_stages(transcode: Transcode) -> list[str]:
    """The types of its failed jobs."""
    failed = Job.objects.failed().filter(workflow_id=transcode.workflow_id)
    return sorted({*failed.values_list("type", flat=True)})


@dataclass(frozen=True)
class Order:
    """Who wants it, and how."""

    actor: str
    qualities: tuple[str, ...] = ()
    subtitles: bool = False


def which(order: Order, outcome: object) -> str:
    """What an action was about, for messages and logs: " (360p; 480p kept from version 1)"."""
    parts = [", ".join(order.qualities)]
    if isinstance(outcome, Transcode) and outcome.kept_qualities:
        parts.append(f"{', '.join(outcome.kept_qualities)} kept from version {outcome.based_on}")
    said = "; ".join(part for part in parts if part)
    return f" ({said})" if said else ""


@dataclass(frozen=True)
class Verb:
    name: str
    label: str
    done: str
    """As in "“Film” was …"."""
    consequence: str
    obstacle: Callable[[Situation], str]
    """Why it is not possible now, in a few words; empty: it is possible."""
    do: Callable[[Video, Order], object]
    permission: str = "change"
    is_dangerous: bool = False

    def is_possible(self, now: Situation) -> bool:
        return not self.obstacle(now)


def _busy(now: Situation) -> str:
    if now.is_deleted:
        return "in the bin; restore it first"
    return "a transcode is under way; wait for it or cancel it" if now.is_active else ""


def _nothing_failed(now: Situation) -> str:
    ended_badly = now.newest is None or now.newest.status in ENDED
    failed = ended_badly or now.has_failed_quality or bool(now.missing_stages)
    return _busy(now) or ("" if failed else "nothing has failed")


def _no_failed_quality(now: Situation) -> str:
    return _busy(now) or ("" if now.has_failed_quality else "no quality has failed")


def _retry(video: Video, order: Order) -> object:
    """All that failed; a quality that a published video was left without needs a generation of its own."""
    now = situation_of(video)
    if now.newest is not None and now.newest.status not in ENDED and now.has_failed_quality:
        failed = now.newest.qualities.filter(status=QualityStatus.FAILED).first()
        if failed is not None:
            return intervening.retry_quality(video, failed.quality, actor=order.actor)
    return intervening.retry(video, actor=order.actor)


def _retry_quality(video: Video, order: Order) -> object:
    return intervening.retry_quality(video, "".join(order.qualities[:1]), actor=order.actor)


def _retranscode(video: Video, order: Order) -> object:
    return intervening.retranscode(video, qualities=order.qualities, subtitles=order.subtitles)


RETRY = Verb(
    "retry",
    "Retry",
    "queued for another attempt",
    "Runs again what has failed; what is finished is kept.",
    _nothing_failed,
    _retry,
)
RETRY_QUALITY = Verb(
    "retry_quality",
    "Retry this quality",
    "queued for another attempt",
    "Runs one failed quality again.",
    _no_failed_quality,
    _retry_quality,
)
RETRANSCODE = Verb(
    "retranscode",
    "Retranscode",
    "queued for re-encoding",
    "Makes a new version. Viewers keep the present one until the new one is whole. Qualities that are chosen are "
    "encoded again and the other published ones taken over as they are; with none chosen, all are encoded again.",
    _busy,
    _retranscode,
)
CANCEL = Verb(
    "cancel",
    "Cancel the transcode",
    "cancelled",
    "Running jobs are told to stop. What is published stays as it is.",
    lambda now: "" if now.is_active else "no transcode is under way",
    lambda video, order: intervening.cancel(video, actor=order.actor),
    is_dangerous=True,
)
DELETE = Verb(
    "delete",
    "Delete",
    "moved to the bin",
    "Nobody can watch it any more. It can be restored.",
    lambda now: "in the bin already" if now.is_deleted else "",
    lambda video, order: intervening.delete(video, actor=order.actor),
    is_dangerous=True,
)
RESTORE = Verb(
    "restore",
    "Restore",
    "restored",
    "Brings it back as it was; what was never finished goes on.",
    lambda now: "" if now.is_deleted else "not in the bin",
    lambda video, order: intervening.restore(video, actor=order.actor),
)
PURGE = Verb(
    "purge",
    "Purge",
    "purged, with all its files",
    "Removes the video for good: its record, the uploaded file and everything made from it.",
    lambda now: "" if now.is_deleted else "not in the bin; delete it first",
    lambda video, order: intervening.purge(video, actor=order.actor),
    permission="purge",
    is_dangerous=True,
)

VERBS = (RETRY, RETRY_QUALITY, RETRANSCODE, CANCEL, RESTORE, DELETE, PURGE)
BY_NAME = {verb.name: verb for verb in VERBS}
ON_A_SELECTION = (RETRY, RETRANSCODE, CANCEL, RESTORE, DELETE, PURGE)
