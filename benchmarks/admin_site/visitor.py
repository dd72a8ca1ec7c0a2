"""Somebody who looks at the pages, inside the process: what the server does, without a network."""

from __future__ import annotations

import os
import time
from functools import cached_property

import django

SETTINGS = "benchmarks.admin_site.settings"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.urls import reverse  # noqa: E402

from benchmarks.sprocket_site.sprocket import Sprocket  # noqa: E402
from benchmarks.subject import Options  # noqa: E402
from benchmarks.web import WebServer  # noqa: E402
from jobs import enqueue, enqueue_many, fleet, lifecycle, statistics  # noqa: E402
from jobs.models import Attempt, CountingMark, Job  # noqa: E402
from tests.support.videos.full_shelves import fill_shelves  # noqa: E402
from videos.models import Channel, Video  # noqa: E402

_PAST = """
INSERT INTO jobs_job (id, type, payload, status, correlation_id, run_at, created_at, completed_at, last_error,
                      attempt_number, lease_token)
SELECT lpad(i::text, 26, '0'), 'bench.noop', '{}',
       CASE i %% 20 WHEN 0 THEN 'failed' WHEN 1 THEN 'pending' WHEN 2 THEN 'waiting' ELSE 'completed' END, '',
       statement_timestamp() + CASE i %% 20 WHEN 2 THEN interval '1 day' ELSE - i * interval '1 day' / %(count)s END,
       statement_timestamp() - i * interval '1 day' / %(count)s,
       CASE WHEN i %% 20 > 2 THEN statement_timestamp() - i * interval '1 day' / %(count)s END,
       CASE i %% 20 WHEN 0 THEN 'ValueError: no' ELSE '' END,
       CASE WHEN i %% 20 IN (1, 2) THEN 0 ELSE 1 END, CASE WHEN i %% 20 IN (1, 2) THEN 0 ELSE 1 END
FROM generate_series(1, %(count)s) AS i
"""
_ATTEMPTS = """
INSERT INTO jobs_attempt (job_id, token, number, worker_id, worker_name, started_at, finished_at, outcome)
SELECT id, 1, 1, '', '', created_at, created_at, status FROM jobs_job
WHERE status IN ('completed', 'failed') ORDER BY created_at
"""


class Visitor(Sprocket):
    """Sprocket with a past: most jobs completed over the last day, one in twenty each failed, pending and due tomorrow,
    eight running; and videos, nearly all of them published."""

    def fill_past(self, count: int, videos: int) -> None:
        fill_shelves(videos)
        with connection.cursor() as cursor:
            cursor.execute(_PAST, {"count": count})
            cursor.execute(_ATTEMPTS)
        worker = fleet.register(name="past", job_types=["bench.noop"], capabilities=[], concurrency=8)
        fleet.heartbeat(worker, busy=True)
        enqueue_many("bench.noop", [{"index": index} for index in range(8)], priority=-5)
        lifecycle.claim(worker, 8)

    def count_past(self) -> None:
        """As sweep after sweep has done by then."""
        newest = Attempt.objects.order_by("-pk").values_list("pk", flat=True)[8]
        while not CountingMark.objects.filter(attempt__gte=newest).exists():
            statistics.count_minutes()

    @cached_property
    def _pages(self) -> dict[str, str]:
        newest = Job.objects.order_by("-pk").values_list("pk", flat=True)[0]
        jobs = reverse("admin:jobs_job_changelist")
        video = Video.objects.filter(status="ready").order_by("-pk")[0]
        videos = reverse("admin:videos_video_changelist")
        channel = Channel.objects.get(slug="shelf-7")
        return {
            "dashboard": reverse("admin:jobs_dashboard_changelist"),
            "first page": reverse("admin:index"),
            "list of jobs": jobs,
            "list of failed jobs": f"{jobs}?status__exact=failed",
            "search by id": f"{jobs}?q={newest}",
            "a job": reverse("admin:jobs_job_change", args=[newest]),
            "list of videos": videos,
            "videos of a channel": f"{videos}?channel={channel.pk}&status=ready",
            "search of videos": f"{videos}?q=day+77",
            "a video": reverse("admin:videos_video_change", args=[video.pk]),
            "channels": reverse("admin:videos_channel_changelist"),
            "watch page": video.get_absolute_url(),
            "page of a channel": channel.get_absolute_url(),
        }

    @cached_property
    def _client(self) -> Client:
        user, _ = User.objects.get_or_create(username="visitor", is_staff=True, is_superuser=True)
        client = Client(SERVER_NAME="localhost")
        client.force_login(user)
        return client

    def pages(self) -> list[str]:
        return list(self._pages)

    def count_queries(self, page: str) -> int:
        self._view(page)
        with CaptureQueriesContext(connection) as queries:
            self._view(page)
        return len(queries)

    def time_page(self, page: str, views: int) -> list[float]:
        """Seconds of each view, from the request to the last byte of the answer."""
        times = []
        for _ in range(views):
            began = time.perf_counter()
            self._view(page)
            times.append(time.perf_counter() - began)
        return times

    def _view(self, page: str) -> None:
        answer = self._client.get(self._pages[page])
        if answer.status_code != 200:
            raise RuntimeError(f"{page}: {answer.status_code}")

    # Live pages:

    def workers(self, options: Options) -> list[list[str]]:
        if "server" in options:
            self._server = WebServer(SETTINGS, pooled=False)
            return [self._server.command()]
        return super().workers(options)

    def enqueue_steps(self, steps: int) -> tuple[str, str, str]:
        """A job whose handler tells of so many steps; the address of its live page, and the visitor's cookie."""
        assert self._server is not None
        job = enqueue("bench.steps", steps=steps)
        cookie = self._client.cookies["sessionid"]
        return (
            job.pk,
            f"{self._server.address}{reverse('jobs:events')}?job={job.pk}",
            f"sessionid={cookie.value}",
        )


def subject() -> Visitor:
    return Visitor()
