"""The API of videos: its health, its faults, its document."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings

from jobs.health import Health
from tests.support.pages.video_admin import failed as failed
from tests.support.pages.videos_api_client import ROW, VIDEOS, refused
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.videos.video_site import client_of
from videos.api import health
from videos.models import Video

pytestmark = pytest.mark.django_db


def test_health_has_reasons_for_all_and_numbers_for_staff(
    failed: Video, admin_client: Client, settings: Settings
) -> None:
    assert Client().get("/api/health").json() == {
        "status": "ok",
        "reasons": [],
        "storage": None,
        "processing": None,
    }
    told = client_of("view_video").get("/api/health").json()
    assert told["processing"]["videos"] == {**ROW, "failed": 1}
    assert told["storage"]["total_bytes"] >= told["storage"]["free_bytes"] > 0
    assert client_of("add_video").get("/api/health").json()["processing"] is None
    settings.VIDEOS = {**settings.VIDEOS, "MIN_FREE_BYTES": 10**18}
    full = Client().get("/api/health")
    assert (full.status_code, full.json()["reasons"]) == (503, [health.LITTLE_ROOM])


def test_health_without_a_database_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*arguments: Any, **named: Any) -> Any:
        raise OperationalError("the server closed the connection: password=secret")

    monkeypatch.setattr("videos.api.health.Transcode.objects.active", gone)
    answer = Client().get("/api/health")
    assert (answer.status_code, answer.json()["reasons"]) == (503, [health.DATABASE_AWAY])
    assert answer.json()["status"] == Health(database=False).status, "the queue's own word for it"


def test_a_database_that_is_gone_is_told_without_its_secrets(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*arguments: Any, **named: Any) -> Any:
        raise OperationalError("password=secret")

    monkeypatch.setattr("videos.api.videos.page_of", gone)
    answer = admin_client.get(VIDEOS)
    assert refused(answer, 503, "unavailable")
    assert "secret" not in answer.content.decode()


def test_a_fault_of_ours_is_told_in_the_same_form(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **named: Any) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("videos.api.videos.page_of", broken)
    assert refused(admin_client.get(VIDEOS), 500, "internal")
