"""The site's own pages: what everybody may watch, and what is said when something is not there."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.testing import run_due_jobs
from tests.support.videos.video_site import accept, clip
from videos.models import Video, Visibility

pytestmark = pytest.mark.django_db


def home(client: Client) -> str:
    response = client.get("/")
    assert response.status_code == 200
    assert "default-src 'none'" in response["Content-Security-Policy"]
    return response.content.decode()


def test_a_site_without_videos_says_what_comes_next(client: Client) -> None:
    page = home(client)
    assert 'class="waiting-title"' in page
    assert 'href="/v/' not in page
    assert "/admin/videos/video/add/" not in page
    client.force_login(User.objects.create_superuser("chief"))
    assert "/admin/videos/video/add/" in home(client)


def test_the_first_page_shows_what_is_public_the_newest_first(videos_root: Path, client: Client) -> None:
    for slug in ("old", "new", "link-only", "secret", "gone", "not-ready"):
        accept(clip(25), slug=slug, title=slug)
        if slug != "not-ready":
            run_due_jobs()
    Video.objects.filter(handle="old").update(published_at=Now() - timedelta(days=1))
    Video.objects.filter(handle="link-only").update(visibility=Visibility.UNLISTED)
    Video.objects.filter(handle="secret").update(visibility=Visibility.PRIVATE)
    Video.objects.filter(handle="gone").update(deleted_at=Now())
    with CaptureQueriesContext(connection) as asked:
        page = home(client)
    assert page.index('href="/v/new/"') < page.index('href="/v/old/"')
    assert page.count('href="/v/') == 2
    assert 'class="waiting-title"' not in page
    assert 'href="/c/films/"' in page
    assert len(asked) <= 3


def test_nothing_is_changed_here(client: Client) -> None:
    assert client.post("/").status_code == 405


def test_a_page_that_is_not_there_says_where_to_go(client: Client) -> None:
    response = client.get("/v/never/")
    assert response.status_code == 404
    page = response.content.decode()
    assert 'data-error="404"' in page
    assert 'href="/"' in page


def test_an_error_of_the_server_is_a_page_without_a_database(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.raise_request_exception = False
    monkeypatch.setattr("project.views.SHELF", "not a number")
    broken = client.get("/")
    assert broken.status_code == 500
    assert 'data-error="500"' in broken.content.decode()


def test_the_admin_bears_the_name_of_the_product(client: Client) -> None:
    page = client.get("/admin/login/").content.decode()
    title = re.search("<title>(.*)</title>", page)
    assert title is not None
    assert title[1].endswith(" | Sprocket")
    assert "Django administration" not in page
