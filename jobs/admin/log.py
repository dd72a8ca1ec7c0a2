"""The admin's own log of who did what."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest


def log_rows(
    request: HttpRequest,
    model: type[Any],
    pks: Collection[Any],
    message: str,
    names: dict[Any, str] | None = None,
) -> None:
    """An entry per row; also of rows that are gone by now, whose names the caller knows."""
    _write(request, model, [(pk, (names or {}).get(pk) or str(pk)) for pk in pks], message)


def log_summary(request: HttpRequest, model: type[Any], what: str, message: str) -> None:
    """One entry for many rows."""
    _write(request, model, [(None, what)], message)


def _write(request: HttpRequest, model: type[Any], rows: list[tuple[Any, str]], message: str) -> None:
    if not request.user.is_authenticated:
        return
    kind = ContentType.objects.get_for_model(model)
    LogEntry.objects.bulk_create(
        [
            LogEntry(
                user_id=request.user.pk,
                content_type=kind,
                object_id=None if pk is None else str(pk),
                object_repr=name[:200],
                action_flag=CHANGE,
                change_message=message,
            )
            for pk, name in rows
        ],
        batch_size=500,
    )
