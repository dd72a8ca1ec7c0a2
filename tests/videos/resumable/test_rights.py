"""Resumable uploads: by people who may and who may not, with a session or a staff token."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from jobs import staff_tokens
from tests.support.servers.tus import Tus
from tests.support.servers.tus import tus as tus
from tests.support.videos.video_site import client_of

pytestmark = pytest.mark.django_db


def test_the_permission_matrix(tus: Tus) -> None:
    mine = tus.begun(10)
    expected = {
        "anonymous": (Client(), 401, 401),
        "not staff": (client_of("add_video", staff=False), 403, 403),
        "without rights": (client_of(), 403, 403),
        "who may change and look": (client_of("view_video", "change_video", "delete_video"), 403, 403),
        "who may upload": (client_of("add_video"), 201, 404),
    }
    for who, (client, begins, others) in expected.items():
        them = Tus(client)
        assert them.begin(10).status_code == begins, who
        for answer in (them.head(mine), them.patch(mine, 0, b"x"), them.delete(mine), client.get(mine)):
            assert answer.status_code == others, who
    assert tus.offset(mine) == 0


def test_who_loses_the_right_goes_on_no_more(tus: Tus) -> None:
    client = client_of("add_video")
    them = Tus(client)
    place = them.begun(10)
    User.objects.get(username__startswith="clerk").user_permissions.clear()
    assert them.patch(place, 0, b"x").status_code == 403


def test_a_session_needs_the_csrf_token(tus: Tus) -> None:
    client = client_of("add_video", csrf=True)
    them = Tus(client)
    refused = them.begin(10)
    assert (refused.status_code, refused.json()["error"]) == (403, "csrf")
    page = client.get("/admin/videos/video/add/")
    token = page.context["csrf"]
    begun = them.begin(10, X_CSRFToken=token)
    assert begun.status_code == 201
    place = begun["Location"]
    assert them.patch(place, 0, b"x").status_code == 403
    assert them.delete(place).status_code == 403
    assert them.patch(place, 0, b"x", X_CSRFToken=token).status_code == 204
    assert them.head(place).status_code == 200
    forged = {"Tus-Resumable": "1.0.0", "X-HTTP-Method-Override": "DELETE"}
    assert client.post(place, content_type="text/plain", headers=forged).status_code == 403
    assert them.offset(place) == 1


def test_a_staff_token_needs_no_session(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}
    client_of("add_video")
    user = User.objects.get()
    out = io.StringIO()
    call_command("stafftoken", user.username, stdout=out)
    token = out.getvalue().strip()
    script = Tus(Client(enforce_csrf_checks=True))

    def status(header: str) -> int:
        return int(script.begin(10, Authorization=header).status_code)

    assert status(f"Bearer {token}") == 201
    assert status(f"bearer   {token}") == 201
    assert script.begin(10).status_code == 401
    for wrong in (
        token,
        "Bearer",
        "Bearer ",
        f"Bearer {token}x",
        f"Bearer x{token}",
        "Bearer " + "a" * 9999,
        f"Basic {token}",
        "Bearer \u00e9",
    ):
        assert status(wrong) == 401
    assert status(f"Bearer {staff_tokens.issue(user, timedelta(milliseconds=1))}") == 401
    user.set_password("new")
    user.save()
    assert status(f"Bearer {token}") == 401
    token = staff_tokens.issue(user, timedelta(days=1))
    assert status(f"Bearer {token}") == 201
    User.objects.update(is_active=False)
    assert status(f"Bearer {token}") == 401
    with pytest.raises(CommandError, match=user.username):
        call_command("stafftoken", user.username)


def test_wrong_tokens_are_limited_and_right_ones_are_not(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 0}
    settings.JOBS = {**settings.JOBS, "FAILED_AUTH_RATE": 3}
    client_of("add_video")
    token = staff_tokens.issue(User.objects.get(), timedelta(days=1))
    script = Tus(Client())
    assert [script.begin(10, Authorization="Bearer wrong").status_code for _ in range(3)] == [401] * 3
    limited = script.begin(10, Authorization="Bearer wrong")
    assert (limited.status_code, limited.json()["error"]) == (429, "too_many_tries")
    assert 1 <= int(limited["Retry-After"]) <= 60
    assert script.client.get("/api/videos", headers={"Authorization": "Bearer wrong"}).status_code == 429
    assert script.begin(10, Authorization=f"Bearer {token}").status_code == 201
