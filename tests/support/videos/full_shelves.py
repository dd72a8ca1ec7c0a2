"""Videos by the thousand, as rows alone: no files are behind them."""

from __future__ import annotations

from django.db import connection
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Now

from jobs.ulid import new_ulids
from videos.models import (
    Channel,
    QualityProgress,
    QualityStatus,
    Rendition,
    RenditionKind,
    Transcode,
    TranscodeStatus,
    Video,
    VideoStatus,
)

CHANNELS = 20
QUALITIES = ("480p", "360p")
_TABLES = ("videos_video", "videos_transcode", "videos_qualityprogress", "videos_rendition")


def fill_shelves(count: int) -> None:
    """So many videos in 20 channels, with a transcode each: one in fifty failed, the others can be watched."""
    channels = Channel.objects.bulk_create(
        Channel(name=f"Shelf {n}", slug=f"shelf-{n}") for n in range(CHANNELS)
    )
    videos = Video.objects.bulk_create(
        Video(
            pk=pk,
            channel=channels[n % CHANNELS],
            title=f"The film of day {n}",
            handle=f"day-{n}",
            slug=f"day-{n}",
            status=VideoStatus.PENDING if n % 50 else VideoStatus.FAILED,
            error_message="" if n % 50 else "The source cannot be read.",
            source_name=f"day-{n}.mp4",
            source_bytes=1_000_000,
            source_sha256=f"{n:064x}",
            duration=90.0,
            width=640,
            height=480,
            fps=25.0,
            video_codec="h264",
        )
        for n, pk in enumerate(new_ulids(count))
    )
    transcodes = Transcode.objects.bulk_create(
        Transcode(
            video=video,
            number=1,
            status=TranscodeStatus.FAILED if video.error_message else TranscodeStatus.PUBLISHED,
            workflow_id=workflow_id,
            error=video.error_message,
            ended_at=Now() if video.error_message else None,
            published_at=None if video.error_message else Now(),
            encoder="" if video.error_message else "libx264",
            plan=None if video.error_message else {"encoder": "libx264", "audio": []},
        )
        for video, workflow_id in zip(videos, new_ulids(count), strict=True)
    )
    published = [made for made in transcodes if made.status == TranscodeStatus.PUBLISHED]
    QualityProgress.objects.bulk_create(
        QualityProgress(
            transcode=made,
            quality=quality,
            status=QualityStatus.COMPLETED,
            segments_total=15,
            segments_completed=15,
            progress_percent=100,
            completed_at=Now(),
        )
        for made in published
        for quality in QUALITIES
    )
    Rendition.objects.bulk_create(
        Rendition(
            transcode=made,
            kind=RenditionKind.VIDEO,
            name=quality,
            width=int(quality[:-1]) * 4 // 3,
            height=int(quality[:-1]),
            frame_rate=25.0,
            codecs="avc1.64001e",
            bandwidth=1_000_000,
            average_bandwidth=800_000,
            playlist=f"{quality}/playlist.m3u8",
            segments=15,
            bytes=9_000_000,
            sha256="0" * 64,
        )
        for made in published
        for quality in QUALITIES
    )
    own = Transcode.objects.filter(video=OuterRef("pk"), status=TranscodeStatus.PUBLISHED)
    Transcode.objects.filter(status=TranscodeStatus.PUBLISHED).update(progress_percent=100)
    Video.objects.filter(status=VideoStatus.PENDING).update(
        status=VideoStatus.READY, current=Subquery(own.values("pk")[:1]), published_at=Now()
    )
    with connection.cursor() as cursor:
        for table in _TABLES:
            cursor.execute(f"ANALYZE {table}")
