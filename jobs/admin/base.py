"""What the pages of the queue and of the pipeline have in common."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import SuspiciousOperation
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.admin.log import log_rows
from jobs.live.views import refusal


def badge(text: str) -> SafeString:
    return format_html('<span class="sp-badge" data-status="{}">{}</span>', text, text)


def live_badge(text: str, name: str) -> SafeString:
    return format_html('<span class="sp-badge" data-status="{}" data-live="{}">{}</span>', text, name, text)


def bar(percent: float, name: str) -> SafeString:
    return format_html(
        '<progress class="sp-bar" max="100" value="{}" data-live="{}" aria-label="progress"></progress>',
        f"{percent:.1f}",
        name,
    )


def moment(when: datetime | None, *, otherwise: str = "–", live: str = "") -> str:
    """A moment as "3 min ago"; the whole of it to hover over, and without scripts. `live`: its name in a stream."""
    name = format_html(' class="sp-moment" data-live="{}"', live) if live else ""
    if when is None:
        return (
            format_html('<time datetime="" data-live-time="ago"{}>{}</time>', name, otherwise)
            if live
            else otherwise
        )
    text = date_format(timezone.localtime(when), "DATETIME_FORMAT")
    return format_html(
        '<time datetime="{}" data-live-time="ago" title="{}"{}>{}</time>', when.isoformat(), text, name, text
    )


def stream_view(
    site: admin.AdminSite, view: Callable[..., HttpResponseBase]
) -> Callable[..., HttpResponseBase]:
    """As site.admin_view, for what a script asks: strangers get a refusal, not the login page."""

    def wrapped(request: HttpRequest, **named: Any) -> HttpResponseBase:
        if not site.has_permission(request):
            return refusal(401, "not_signed_in", "Sign in as a member of the staff.")
        return view(request, **named)

    return wrapped


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows are made and changed by the queue; people act on them through actions."""

    class Media:
        css = {"all": ("jobs/sprocket.css", "jobs/admin.css")}
        js = ("jobs/live.js", "jobs/once.js")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if any("\0" in value for values in request.GET.lists() for value in values[1]):
            raise SuspiciousOperation("A NUL character in the address.")
        return super().changelist_view(request, extra_context)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [field.name for field in self.model._meta.fields]

    def perform(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        code: str,
        done: str,
        verb: Callable[[list[str]], list[str]],
    ) -> None:
        """Apply the verb, say what was done, and leave it in the admin's log.

        The code is among the tags of the message: programs and tests go by it and by the level, not by the text.
        """
        names = {row.pk: str(row) for row in queryset}
        ids = verb(list(names))
        log_rows(request, self.model, ids, done, names)
        level = messages.SUCCESS if ids else messages.WARNING
        said = f"{len(ids)} {done}." if ids else f"None could be {done}."
        self.message_user(request, said, level, extra_tags=code)


class ReadOnlyInline(admin.TabularInline):  # type: ignore[type-arg]
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
