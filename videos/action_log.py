"""The admin's own log, for what is done over HTTP outside of it; sites without Django's admin have none."""

from __future__ import annotations

from typing import Any

from django.apps import apps

from videos.models import Video


def log_addition(user: Any, video: Video, message: str) -> None:
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import ADDITION

    _write(user, video.pk, video.title, ADDITION, message)


def log_change(user: Any, video_id: str, title: str, message: str) -> None:
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import CHANGE

    _write(user, video_id, title, CHANGE, message)


def _write(user: Any, video_id: str, title: str, flag: int, message: str) -> None:
    from django.contrib.admin.models import LogEntry
    from django.contrib.contenttypes.models import ContentType

    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(Video),
        object_id=video_id,
        object_repr=title[:200],
        action_flag=flag,
        change_message=message,
    )
