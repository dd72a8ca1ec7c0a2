"""Publish a generation: verify everything, then move the video's pointer in one transaction.

Before that instant viewers get the old generation whole, after it the new one whole. Nothing published is overwritten.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterable

from django.db.models.functions import Coalesce, Now

from jobs import JobContext, PermanentFailure, database, lifecycle
from jobs.lifecycle.leases import lock_leased
from videos import assembling, conf, depot, removal
from videos.assembling import Assembly
from videos.media import finish, verify
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


def publish(bench: Workbench) -> None:
    """Verify what is on disk, byte for byte and against the plan; then swap."""
    bench.gather()
    assembly = Assembly(assembling.published_plan(bench.transcode), bench.qualities())
    files = list(assembling.files_of(bench, assembly))
    verify.verify(assembly.plan, bench.generation, files=files, qualities=assembly.qualities)
    bench.job.progress(90, step="verified")
    renditions = list(_renditions(bench, assembly, files))
    _tidy(bench)
    _refuse_unkept(bench, files, renditions)
    _swap(bench.job, bench.transcode, assembly, renditions)


def _swap(job: JobContext, transcode: Transcode, assembly: Assembly, renditions: list[Rendition]) -> None:
    """One transaction, bound to the lease, with the completion of the job itself."""

    def write() -> None:
        with database.atomic():
            lock_leased(job.lease)
            mine = Transcode.objects.select_for_update(no_key=True).get(pk=transcode.pk)
            video = Video.objects.select_for_update(no_key=True).get(pk=transcode.video_id)
            if not mine.is_active or video.deleted_at is not None:
                raise PermanentFailure(
                    f"Generation {mine.number} is {mine.status}; it is not published any more."
                )
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
                duration=float(assembly.plan.duration),
                published_at=Coalesce("published_at", Now()),
                warning=_warning(video, mine),
            )
            lifecycle.complete(job.lease)

    database.when_unlocked(write)
    log.info("video %s: generation %d is published", transcode.video_id, transcode.number)


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
    short = "The source breaks off before its end; what could be decoded is published."
    kept = video.warning.replace(short, "").strip()
    return f"{kept} {short}".strip() if transcode.frames_found else kept


def _renditions(bench: Workbench, assembly: Assembly, files: list[Written]) -> Iterable[Rendition]:
    plan = assembly.plan
    for wanted in plan.renditions:
        if wanted.name in assembly.qualities:
            yield _rendition(
                bench, RenditionKind.VIDEO, wanted.name, plan.total_segments, files, plan.frame_rate
            )
    folders = {track.folder(bitrate): track.language for track in plan.audio for bitrate in track.bitrates}
    for name, language in folders.items():
        if (bench.generation / name / finish.PLAYLIST).exists():
            rendition = _rendition(bench, RenditionKind.AUDIO, name, plan.audio_segments, files)
            rendition.language = language
            yield rendition


def _rendition(
    bench: Workbench,
    kind: RenditionKind,
    name: str,
    segments: int,
    files: list[Written],
    frame_rate: object = 0,
) -> Rendition:
    found = finish.read_rendition(bench.generation / name, segments=segments)
    own = sorted({(file.name, file.sha256, file.size) for file in files if file.name.startswith(f"{name}/")})
    return Rendition(
        transcode=bench.transcode,
        kind=kind,
        name=name,
        width=found.width or None,
        height=found.height or None,
        frame_rate=float(frame_rate) if frame_rate else None,  # type: ignore[arg-type]
        codecs=found.codec,
        bandwidth=found.peak_bandwidth,
        average_bandwidth=found.average_bandwidth,
        playlist=f"{name}/{finish.PLAYLIST}",
        segments=segments,
        bytes=sum(size for _, _, size in own),
        sha256=hashlib.sha256("".join(checksum for _, checksum, _ in own).encode()).hexdigest(),
    )


def _refuse_unkept(bench: Workbench, files: list[Written], renditions: list[Rendition]) -> None:
    """What was verified here is what the storage has, where one keeps the videos."""
    if depot.current() is None:
        return
    wanted = {file.name: file.size for file in files}
    for name in (finish.MASTER, *(rendition.playlist for rendition in renditions)):
        wanted[name] = (bench.generation / name).stat().st_size
    there = depot.sizes(bench.generation)
    lacking = sorted(name for name, size in wanted.items() if there.get(name) != size)
    if lacking:
        raise ChunkRefused(
            f"The storage lacks {lacking[0]}; `manage.py reconcile` queues again what makes it."
        )


def _tidy(bench: Workbench) -> None:
    """What workers that were killed have left behind."""
    for pattern in (".chunk-*", ".audio-*"):
        for folder in bench.generation.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)
