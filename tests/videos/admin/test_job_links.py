"""From the admin's page of a pipeline's job to its video."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from jobs import enqueue
from jobs.admin.links import links_of
from jobs.models import Job
from tests.support.pages.admin_pages import EVIL, text_of
from tests.support.videos.video_site import accept, clip

pytestmark = pytest.mark.django_db


def test_the_page_of_a_job_leads_to_its_video(videos_root: Path, admin_client: Client) -> None:
    video = accept(clip(50), slug="film", title=f"Film {EVIL}")
    job = Job.objects.get(type="videos.probe")
    page = text_of(admin_client.get(reverse("admin:jobs_job_change", args=[job.pk])))
    assert f'<a href="{reverse("admin:videos_video_change", args=[video.pk])}">Film &lt;script&gt;' in page
    assert f'<a href="{video.get_absolute_url()}">Watch it</a>' in page


@pytest.mark.parametrize(
    "payload", [{"transcode_id": 4711}, {"transcode_id": "x"}, {"transcode_id": None}, {}]
)
def test_a_job_whose_video_is_gone_or_whose_payload_is_nonsense_leads_nowhere(payload: object) -> None:
    assert links_of(Job(type="videos.encode", payload=payload)) == []


def test_jobs_of_others_are_none_of_its_business() -> None:
    assert links_of(enqueue("tests.noop")) == []
