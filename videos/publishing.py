"""Publish a generation: verify everything, then move the video's pointer in one transaction.

Before that instant viewers get the old generation whole, after it the new one whole. Nothing published is overwritten.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from dataclasses import dataclass

from django.db.models.functions import Coalesce, Now

from jobs import PermanentFailure, database, lifecycle
from jobs.lifecycle.leases import lock_leased
from videos import assembling, channels, conf, depot, generations, removal
from videos.assembling import Assembly
from videos.media import finish, playlists, verify
from videos.media.encode import Written
from videos.media.exceptions import ChunkRefused
from videos.models import (
    Rendition,
    RenditionKind,
    Transcode,
    TranscodeStatus,
    Video,
    VideoStatus,
)
from videos.workbench import Workbench

log = logging.getLogger("videos")

BREAKS_OFF = "The source breaks off before its end; what could be decoded is published."


def publish(bench: Workbench) -> None:
    """Verify what is on disk, byte for byte and against the plan; then swap."""
    bench.gather()
    ready = prepare(bench)
    verify.verify(ready.plan, bench.generation, files=ready.files, qualities=ready.qualities)
    bench.job.progress(90, step="verified")
    renditions = describe(bench, ready)
    tidy(bench)
    refuse_unkept(bench, ready)

    def write() -> None:
        with database.atomic():
            lock_leased(bench.job.lease)
            swap(bench.transcode, ready, renditions)
            lifecycle.complete(bench.job.lease)

    database.when_unlocked(write)


@dataclass(frozen=True)
class Ready(Assembly):
    """What is to be published, with every file of it."""

    files: tuple[Written, ...]


def prepare(bench: Workbench) -> Ready:
    assembly = Assembly.of(bench, assembling.own_plan(bench))
    files = tuple(assembling.files_of(bench, assembly))
    return Ready(assembly.own, assembly.plan, assembly.qualities, files)


def swap(transcode: Transcode, ready: Ready, renditions: list[Rendition]) -> None:
    """In a transaction that is bound to the lease and completes the job itself."""
    others = Transcode.objects.filter(video=transcode.video_id).exclude(pk=transcode.pk).defer("plan")
    generations.settle_failures(others, reason=f"replaced by generation {transcode.number}")
    versions = Transcode.objects.filter(video=transcode.video_id).order_by("pk").defer("plan")
    mine = next(one for one in versions.select_for_update(no_key=True) if one.pk == transcode.pk)
    video = Video.objects.select_for_update(no_key=True).get(pk=transcode.video_id)
    if not mine.is_active or video.deleted_at is not None:
        raise PermanentFailure(f"Generation {mine.number} is {mine.status}; it is not published any more.")
    Rendition.objects.filter(transcode=mine).delete()
    Rendition.objects.bulk_create(renditions)
    Transcode.objects.filter(pk=mine.pk).update(
        status=TranscodeStatus.PUBLISHED, progress_percent=100, eta=None, published_at=Now(), error=""
    )
    _retire_others(video, mine)
    Video.objects.filter(pk=video.pk).update(
        current=mine,
        status=VideoStatus.READY,
        error_message="",
        duration=float(ready.plan.duration),
        published_at=Coalesce("published_at", Now()),
        warning=_warning(video, mine),
    )
    channels.tell_progress(mine.workflow_id)
    channels.tell_end(mine, TranscodeStatus.PUBLISHED)
    database.on_commit(lambda: log.info("video %s: generation %d is published", video.pk, transcode.number))


def _retire_others(video: Video, published: Transcode) -> None:
    """The generation that was published, and whatever is left of failed ones, goes after the grace."""
    if video.current_id and video.current_id != published.pk:
        Transcode.objects.filter(pk=video.current_id).update(status=TranscodeStatus.RETIRED, retired_at=Now())
    others = video.transcodes.exclude(pk=published.pk).filter(
        status__in=removal.REMOVABLE, files_removed_at__isnull=True
    )
    for other in others:
        removal.plan_generation(other, delay=conf.current().generation_grace)


def _warning(video: Video, transcode: Transcode) -> str:
    kept = video.warning.replace(BREAKS_OFF, "").strip()
    return f"{kept} {BREAKS_OFF}".strip() if transcode.frames_found else kept


def describe(bench: Workbench, ready: Ready, *, read: finish.Read = finish.read_folder) -> list[Rendition]:
    """What is published, as the site's records have it."""
    plan = ready.plan
    languages = {track.folder(bitrate): track.language for track in plan.audio for bitrate in track.bitrates}
    return [
        _rendition(bench.transcode, ready, read(bench.generation / name, segments), languages.get(name))
        for name, segments in finish.folders_of(plan, ready.qualities).items()
    ]


def _rendition(
    transcode: Transcode, ready: Ready, found: playlists.Rendition, language: str | None
) -> Rendition:
    """`language`: of a sound track."""
    name, segments, is_sound = found.name, len(found.segments), language is not None
    own = sorted(
        {(file.name, file.sha256, file.size) for file in ready.files if file.name.startswith(f"{name}/")}
    )
    return Rendition(
        transcode=transcode,
        kind=RenditionKind.AUDIO if is_sound else RenditionKind.VIDEO,
        name=name,
        language=language or "",
        width=found.width or None,
        height=found.height or None,
        frame_rate=None if is_sound else float(ready.plan.frame_rate),
        codecs=found.codec,
        bandwidth=found.peak_bandwidth,
        average_bandwidth=found.average_bandwidth,
        playlist=f"{name}/{finish.PLAYLIST}",
        segments=segments,
        bytes=sum(size for _, _, size in own),
        sha256=hashlib.sha256("".join(checksum for _, checksum, _ in own).encode()).hexdigest(),
    )


def refuse_unkept(bench: Workbench, ready: Ready) -> None:
    """What was verified here is what the storage has, where one keeps the videos."""
    if depot.current() is None:
        return
    wanted = {file.name: file.size for file in ready.files}
    playlists_of = (f"{name}/{finish.PLAYLIST}" for name in finish.folders_of(ready.plan, ready.qualities))
    for name in (finish.MASTER, *playlists_of):
        wanted[name] = (bench.generation / name).stat().st_size
    there = depot.sizes(bench.generation)
    lacking = sorted(name for name, size in wanted.items() if there.get(name) != size)
    if lacking:
        raise ChunkRefused(
            f"The storage lacks {lacking[0]}; `manage.py reconcile` queues again what makes it."
        )


def tidy(bench: Workbench) -> None:
    """What workers that were killed have left behind."""
    for pattern in (".chunk-*", ".audio-*", ".thumbnail-*"):
        for folder in bench.generation.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)
