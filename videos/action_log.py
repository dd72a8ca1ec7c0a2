"""The admin's own log, for what is done over HTTP outside of it; sites without Django's admin have none."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db.models import Model

from videos.models import Video


def log_addition(user: Any, row: Model, message: str) -> None:
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import ADDITION

    _write(user, type(row), row.pk, str(row), ADDITION, message)


def log_change(user: Any, video_id: str, title: str, message: str) -> None:
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import CHANGE

    _write(user, Video, video_id, title, CHANGE, message)


def _write(user: Any, model: type[Model], row_id: Any, title: str, flag: int, message: str) -> None:
    from django.contrib.admin.models import LogEntry
    from django.contrib.contenttypes.models import ContentType

    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(model),
        object_id=str(row_id),
        object_repr=title[:200],
        action_flag=flag,
        change_message=message,
    )
