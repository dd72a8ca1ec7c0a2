"""Jobs: the lifecycle's own verbs as actions. Nothing here writes a status itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import lifecycle, registry
from jobs.admin.base import ReadOnlyAdmin, ReadOnlyInline, badge
from jobs.exceptions import TransitionRefused
from jobs.models import DERIVED_STATES, Attempt, Event, Job
from jobs.priorities import HIGH, LOW, priority_label


class AttemptInline(ReadOnlyInline):
    model = Attempt
    fields = (
        "number",
        "outcome",
        "worker_name",
        "started_at",
        "finished_at",
        "error_type",
        "error",
        "traceback",
    )


class EventInline(ReadOnlyInline):
    model = Event
    fields = ("at", "kind", "actor", "detail")


class DerivedStateFilter(admin.SimpleListFilter):
    title = "derived state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state) for state in DERIVED_STATES]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        chosen = self.value()
        return getattr(queryset, chosen)() if chosen in DERIVED_STATES else queryset


class TypeFilter(admin.SimpleListFilter):
    """The registered types, so that opening the list does not read a million rows for their names."""

    title = "type"
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind.name, kind.name) for kind in registry.all_types()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(type=self.value()) if self.value() else queryset


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "type",
        "state",
        "urgency",
        "progress",
        "attempts_used",
        "worker_name",
        "created_at",
        "error",
    )
    list_filter = ("status", DerivedStateFilter, TypeFilter, "priority")
    search_fields = ("=id", "=correlation_id", "=unique_key")
    search_help_text = "a job's id, correlation id or unique key"
    ordering = ("-id",)
    show_full_result_count = False
    list_select_related = False
    inlines = (AttemptInline, EventInline)
    actions = ("retry", "cancel", "run_now", "make_high", "make_low", "discard")

    @admin.display(description="status", ordering="status")
    def state(self, job: Job) -> SafeString:
        return badge(job.status)

    @admin.display(description="priority", ordering="priority")
    def urgency(self, job: Job) -> str:
        return priority_label(job.priority)

    @admin.display
    def progress(self, job: Job) -> SafeString:
        return format_html(
            '<progress max="100" value="{}" aria-label="progress"></progress> {}',
            job.progress_percent,
            job.current_step,
        )

    @admin.display(description="attempts")
    def attempts_used(self, job: Job) -> str:
        return f"{job.attempt_number} of {job.max_attempts}"

    @admin.display(description="worker")
    def worker_name(self, job: Job) -> str:
        return job.processed_by_worker_name

    @admin.display(description="last error")
    def error(self, job: Job) -> str:
        return job.last_error[:120]

    def has_discard_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.delete_job")

    @admin.action(description="Retry failed or cancelled jobs", permissions=["change"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._act(
            request, queryset, "retried", lambda ids: lifecycle.retry(ids, actor=request.user.get_username())
        )

    @admin.action(description="Cancel", permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._act(
            request,
            queryset,
            "cancelled",
            lambda ids: lifecycle.cancel(ids, actor=request.user.get_username()),
        )

    @admin.action(description="Run now (jobs that wait for their time)", permissions=["change"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._act(
            request,
            queryset,
            "made pending",
            lambda ids: lifecycle.run_now(ids, actor=request.user.get_username()),
        )

    @admin.action(description="Set priority high", permissions=["change"])
    def make_high(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._change_priority(request, queryset, HIGH)

    @admin.action(description="Set priority low", permissions=["change"])
    def make_low(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._change_priority(request, queryset, LOW)

    def _change_priority(self, request: HttpRequest, queryset: QuerySet[Job], priority: int) -> None:
        actor = request.user.get_username()
        self._act(
            request,
            queryset,
            f"given priority {priority_label(priority)}",
            lambda ids: lifecycle.change_priority(ids, priority, actor=actor),
        )

    @admin.action(description="Discard finished jobs for good", permissions=["discard"])
    def discard(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        def verb(ids: list[str]) -> list[str]:
            lifecycle.discard(ids)
            return ids

        self._act(request, queryset, "discarded", verb)

    def _act(
        self, request: HttpRequest, queryset: QuerySet[Job], done: str, verb: Callable[[list[str]], list[str]]
    ) -> None:
        try:
            self.perform(request, queryset, done, verb)
        except TransitionRefused as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
