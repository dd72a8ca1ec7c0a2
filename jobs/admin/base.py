"""What the pages of the queue and of the pipeline have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.models import Status

_COLOURS = {
    Status.WAITING: "#6b7280",
    Status.PENDING: "#2563eb",
    Status.PROCESSING: "#b45309",
    Status.COMPLETED: "#15803d",
    Status.FAILED: "#b91c1c",
    Status.CANCELLED: "#6b7280",
    "idle": "#15803d",
    "active": "#15803d",
    "busy": "#b45309",
    "offline": "#6b7280",
    "disabled": "#b91c1c",
}


def badge(text: str) -> SafeString:
    return format_html(
        '<span style="background:{};color:#fff;border-radius:9px;padding:1px 9px;white-space:nowrap">{}</span>',
        _COLOURS.get(text, "#6b7280"),
        text,
    )


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows are made and changed by the queue; people act on them through actions."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [field.name for field in self.model._meta.fields]

    def perform(
        self, request: HttpRequest, queryset: QuerySet[Any], done: str, verb: Callable[[list[str]], list[str]]
    ) -> None:
        """Apply the verb, say what was done, and leave it in the admin's log; also of rows that are gone now."""
        before = {row.pk: row for row in queryset}
        ids = verb(list(before))
        touched = {**before, **self.model._default_manager.in_bulk([pk for pk in ids if pk not in before])}
        if request.user.is_authenticated and ids:
            LogEntry.objects.log_actions(
                request.user.pk, [touched[pk] for pk in ids if pk in touched], CHANGE, done
            )
        level = messages.SUCCESS if ids else messages.WARNING
        self.message_user(request, f"{len(ids)} {done}." if ids else f"None could be {done}.", level)


class ReadOnlyInline(admin.TabularInline):  # type: ignore[type-arg]
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
