"""The filters of the list of videos."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from videos.models import Channel, VideoStatus, Visibility


class _ChoiceFilter(admin.SimpleListFilter):
    """A column with a few known values; an unknown one in the address finds nothing."""

    column: str

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(**{self.column: self.value()}) if self.value() is not None else queryset


class StatusFilter(_ChoiceFilter):
    title = "status"
    parameter_name = column = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, value) for value in VideoStatus.values]


class VisibilityFilter(_ChoiceFilter):
    title = "visibility"
    parameter_name = column = "visibility"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, value) for value in Visibility.values]


class ChannelFilter(admin.SimpleListFilter):
    title = "channel"
    parameter_name = "channel"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(pk), name) for pk, name in Channel.objects.values_list("pk", "name")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        chosen = self.value()
        if chosen is None:
            return queryset
        return (
            queryset.filter(channel=int(chosen))
            if chosen.isdecimal() and len(chosen) < 19
            else queryset.none()
        )


class BinFilter(admin.SimpleListFilter):
    """What is deleted is out of sight until somebody looks into the bin."""

    title = "deleted"
    parameter_name = "deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "in the bin"), ("any", "both")]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        yield {**first, "display": "no"}
        yield from others

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if self.value() == "any":
            return queryset
        return queryset.filter(deleted_at__isnull=self.value() != "yes")
