"""Job types: pause, resume, and how many may run at once."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs import registry
from jobs.models import JobTypeState


@admin.register(JobTypeState)
class JobTypeStateAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "paused", "limit")
    list_filter = ("paused",)
    readonly_fields = ("name",)
    actions = ("pause", "resume")

    @admin.display(description="concurrency limit")
    def limit(self, state: JobTypeState) -> str:
        kind = registry.find(state.name)
        limit = state.concurrency if state.concurrency is not None else kind and kind.concurrency
        return "none" if limit is None else str(limit)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.action(description="Pause: start no more jobs of this type", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[JobTypeState]) -> None:
        self._set_paused(request, queryset, True)

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[JobTypeState]) -> None:
        self._set_paused(request, queryset, False)

    def _set_paused(self, request: HttpRequest, queryset: QuerySet[JobTypeState], paused: bool) -> None:
        changed = queryset.exclude(paused=paused)
        if request.user.is_authenticated:
            LogEntry.objects.log_actions(
                request.user.pk, changed, CHANGE, f"paused: {paused}", single_object=False
            )
        count = changed.update(paused=paused)
        self.message_user(request, f"{count} job type(s) {'paused' if paused else 'resumed'}.")
