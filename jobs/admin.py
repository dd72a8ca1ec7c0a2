"""The queue in the Django admin: the lifecycle's own verbs as actions. Nothing here writes a status itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import fleet, lifecycle, registry
from jobs.exceptions import TransitionRefused
from jobs.models import DERIVED_STATES, Attempt, Event, Job, JobTypeState, Status, Worker
from jobs.priorities import HIGH, LOW, priority_label

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


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "shown_state",
        "running",
        "concurrency",
        "kind",
        "capabilities",
        "last_heartbeat",
        "version",
    )
    list_filter = ("status", "disabled", "kind")
    search_fields = ("name",)
    actions = ("disable", "enable", "drain")

    @admin.display(description="status")
    def shown_state(self, worker: Worker) -> SafeString:
        return badge(worker.state)

    @admin.display(description="running jobs")
    def running(self, worker: Worker) -> int:
        return worker.running_jobs.count()

    @admin.action(description="Disable: claim nothing until enabled", permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self.perform(request, queryset, "disabled", fleet.disable)

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self.perform(request, queryset, "enabled", fleet.enable)

    @admin.action(description="Drain: finish running jobs, then stop", permissions=["change"])
    def drain(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self.perform(request, queryset, "asked to drain", fleet.drain)


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
