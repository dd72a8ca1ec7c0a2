"""What the pages of videos cost with ten thousand of them beside many jobs: a few queries, none that scans the jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from jobs import lifecycle
from jobs.testing import run_due_jobs
from tests.support.pages.admin_pages import client_of
from tests.support.pages.video_admin import LIST
from tests.support.queue.actors import new_worker
from tests.support.queue.full_tables import fill_tables
from tests.support.queue.plans import MOST_QUERIES, about_jobs, jobs_read, queries_of
from tests.support.videos.full_shelves import fill_shelves
from tests.support.videos.video_site import accept, channel, clip
from videos.models import Channel, Video, VideoStatus

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(900)]  # the rows take a while on a busy machine

JOBS = 40_000
VIDEOS = 10_000


@pytest.fixture
def encoding(videos_root: Path) -> Video:
    """One that is being encoded: its jobs are asked how far they are."""
    made = accept(clip(100), slug="encoding", channel=channel("encoded"))
    run_due_jobs(limit=2)
    assert lifecycle.claim(new_worker(), 4)
    return made


@pytest.fixture
def pages(encoding: Video) -> list[str]:
    fill_tables(JOBS)
    fill_shelves(VIDEOS)
    newest = Video.objects.exclude(pk=encoding.pk).order_by("-pk")[:50]
    ready = next(video for video in newest if video.status == VideoStatus.READY)
    shelf = Channel.objects.get(slug="shelf-7")
    shown = "&".join(f"video={video.pk}" for video in newest)
    return [
        LIST,
        f"{LIST}?p=150",
        f"{LIST}?status=failed",
        f"{LIST}?status=ready&channel={shelf.pk}",
        f"{LIST}?deleted=yes",
        f"{LIST}?o=1",
        f"{LIST}?q=day+77",
        f"{LIST}?q={ready.pk}",
        f"{LIST}?q=nothing-of-the-kind",
        f"{LIST}add/",
        *(f"{LIST}{video.pk}/{page}/" for video in (ready, encoding) for page in ("change", "live")),
        f"{LIST}live/?{shown}",
        f"{LIST}live/?video={encoding.pk}",
        "/admin/videos/channel/",
        f"/admin/videos/channel/{shelf.pk}/change/",
        "/admin/videos/transcode/",
        "/admin/videos/subtitle/",
        f"/v/{ready.slug}/",
        f"/v/{encoding.slug}/",
        f"/v/{encoding.slug}/status",
        f"/c/{shelf.slug}/",
        f"/c/{shelf.slug}/?page=9",
    ]


@pytest.fixture
def viewer() -> Client:
    """Somebody whose permissions have to be read, too."""
    models = ("video", "channel", "transcode", "subtitle", "job")
    verbs = ("view", "change", "add", "delete")
    return client_of(*(f"{verb}_{model}" for verb in verbs for model in models))


def test_a_page_takes_few_queries_and_none_scans_the_jobs(viewer: Client, pages: list[str]) -> None:
    asked = {address: queries_of(viewer, address) for address in pages}
    counts = {address: len(statements) for address, statements in asked.items()}
    assert {address: count for address, count in counts.items() if count > MOST_QUERIES} == {}
    read = {
        (address, sql): jobs_read(sql)
        for address, statements in asked.items()
        for sql in about_jobs(statements)
    }
    assert len(read) >= 4, "the one that is being encoded"
    assert [statement for statement, how in read.items() if how.scans or how.rows > JOBS / 10] == []
