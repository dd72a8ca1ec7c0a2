"""What the queue asks before a run and when it reconciles: does the result of this job exist already, whole?

None means: no opinion, the record stays as it is (the files of an old generation are gone for a reason).
"""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef

from videos import conf, keeping, manifests, storage
from videos.media.plan import EncodePlan
from videos.models import QualityStatus, Subtitle, Transcode, TranscodeStatus
from videos.progress import plan_of

Payload = dict[str, Any]


def chunk_exists(payload: Payload) -> bool | None:
    transcode = _transcode(payload)
    plan = plan_of(transcode) if transcode else None
    if transcode is None or plan is None:
        return is_published(payload)
    failed = transcode.qualities.filter(status=QualityStatus.FAILED).values_list("quality", flat=True)
    given_up = {name for name in failed if not conf.current().is_critical(name)}
    qualities = [r.name for r in plan.renditions if r.name not in given_up]
    return _verdict(transcode, manifests.chunk_name(payload["chunk"]), plan, qualities)


def audio_exists(payload: Payload) -> bool | None:
    transcode = _transcode(payload)
    plan = plan_of(transcode) if transcode else None
    if transcode is None or plan is None:
        return is_published(payload)
    name = manifests.audio_name(payload["track"])
    if transcode.frames_found:
        plan = plan.shortened(transcode.frames_found)
    return _verdict(transcode, name, plan, [])


def kept_exists(payload: Payload) -> bool | None:
    transcode = _transcode(payload)
    plan = plan_of(transcode) if transcode else None
    if transcode is None or plan is None:
        return is_published(payload)
    return _verdict(transcode, manifests.KEPT, plan, transcode.kept_qualities)


def thumbnail_exists(payload: Payload) -> bool | None:
    transcode = _transcode(payload)
    plan = plan_of(transcode) if transcode else None
    if transcode is None or plan is None:
        return None
    return _verdict(transcode, manifests.THUMBNAIL, plan, [])


def subtitle_exists(payload: Payload) -> bool | None:
    """A stored subtitle completes the job, whatever its record says. None stored says nothing: there may be none."""
    transcode = Transcode.objects.filter(pk=payload["transcode_id"]).first()
    if transcode is None:
        return None
    stored = Subtitle.objects.filter(video=transcode.video_id)
    if transcode.redo_subtitles:
        stored = stored.filter(stored_at__gte=transcode.created_at)
    return True if stored.exists() else None


def is_published(payload: Payload) -> bool | None:
    """The date says so, too: somebody may have changed the status by hand."""
    published = (TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED)
    found = Transcode.objects.filter(pk=payload["transcode_id"], status__in=published)
    return True if found.filter(published_at__isnull=False).exists() else None


def _transcode(payload: Payload) -> Transcode | None:
    """The transcode, as long as its files matter to its jobs: it is the newest, and not published."""
    newer = Transcode.objects.filter(video=OuterRef("video"), number__gt=OuterRef("number"))
    return (
        Transcode.objects.filter(pk=payload["transcode_id"], files_removed_at__isnull=True)
        .filter(~Exists(newer), video__deleted_at__isnull=True)
        .exclude(status__in=(TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED))
        .first()
    )


def _verdict(transcode: Transcode, name: str, plan: EncodePlan, parts: list[str]) -> bool | None:
    if keeping.intact(storage.generation(transcode), name, plan=plan.digest(), parts=parts):
        return True
    return False if transcode.is_active else None
