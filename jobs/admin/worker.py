"""Workers: who is there, what they do, and who may go on."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from jobs import fleet
from jobs.admin.base import ReadOnlyAdmin, badge
from jobs.models import Worker


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
