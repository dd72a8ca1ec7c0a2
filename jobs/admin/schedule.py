"""Schedules of periodic jobs: made and changed here, unless the code declares them; paused, resumed and run."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import live
from jobs.admin import schedule_page
from jobs.admin.base import ReadOnlyAdmin, badge, moment
from jobs.admin.schedule_form import ScheduleForm
from jobs.models import Firing, Schedule
from jobs.models.schedule import Source
from jobs.timetable import schedules

FIELDS = ("name", "type", "payload", "cron", "timezone", "catch_up", "priority")


@admin.register(Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    form = ScheduleForm
    fields = FIELDS
    list_display = ("what", "status", "expression", "next_firing", "last_firing")
    list_display_links = None
    list_filter = ("paused", "source", "type")
    search_fields = ("name", "type")
    sortable_by = ()
    actions = ("pause", "resume")
    change_form_template = "admin/jobs/schedule/change_form.html"
    add_form_template = "admin/jobs/schedule/add_form.html"

    def get_urls(self) -> list[Any]:
        act = self.admin_site.admin_view(partial(schedule_page.act, self))
        return [path("<path:name>/act/", act, name="jobs_schedule_act"), *super().get_urls()]

    # -- who may -------------------------------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("jobs.add_schedule"))

    def has_delete_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        """What the code declares would be back with the next worker."""
        mine = obj is None or obj.source != Source.CODE or obj.removed
        return mine and bool(request.user.has_perm("jobs.delete_schedule"))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """One by one only, as each may be the code's."""
        return {
            name: action for name, action in super().get_actions(request).items() if name != "delete_selected"
        }

    def get_readonly_fields(self, request: HttpRequest, obj: Schedule | None = None) -> list[str]:
        if obj is None:
            return []
        return list(FIELDS) if obj.source == Source.CODE else ["name"]

    # -- writing -------------------------------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        schedules.store(obj)
        live.hint_on_commit()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> Any:
        row = self.get_object(request, unquote(object_id))
        more = schedule_page.context_of(self, request, row) if row else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **more})

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> Any:
        more = {"timezones": schedule_page.timezones()}
        return super().add_view(request, form_url, {**(extra_context or {}), **more})

    # -- the list ------------------------------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Schedule]:
        newest = Firing.objects.filter(schedule=OuterRef("pk")).order_by("-tick", "-pk")
        rows: QuerySet[Schedule] = super().get_queryset(request)
        return rows.annotate(
            fired_at=Subquery(newest.values("fired_at")[:1]),
            fired_job=Subquery(newest.values("job_id")[:1]),
            fired_error=Subquery(newest.values("error")[:1]),
        )

    @admin.display(description="schedule")
    def what(self, row: Schedule) -> SafeString:
        return format_html(
            '<a href="{}"><strong>{}</strong></a><div class="sp-quiet"><span class="sp-mono">{}</span>{}</div>',
            schedule_page.address_of(self, row.name),
            row.name,
            row.type,
            ", in code" if row.source == Source.CODE else "",
        )

    @admin.display(description="status")
    def status(self, row: Schedule) -> SafeString:
        return badge(schedule_page.status_of(row))

    @admin.display(description="when")
    def expression(self, row: Schedule) -> SafeString:
        return format_html(
            '<span class="sp-mono">{}</span><div class="sp-quiet">{}</div>', row.cron, row.timezone
        )

    @admin.display(description="next firing")
    def next_firing(self, row: Schedule) -> str:
        return schedule_page.coming(row.next_at) if row.next_at else "–"

    @admin.display(description="last firing")
    def last_firing(self, row: Any) -> str:
        if row.fired_at is None:
            return "never"
        if not row.fired_job:
            return format_html(
                '{} <span title="{}">{}</span>', moment(row.fired_at), row.fired_error, badge("failed")
            )
        return format_html(
            '<a href="{}">{}</a>', schedule_page.job_address(self, row.fired_job), moment(row.fired_at)
        )

    # -- actions -------------------------------------------------------------------------------------------------------

    @admin.action(description="Pause: fire no more until resumed", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        self.perform(request, queryset, "schedule_pause", "paused", schedules.pause)

    @admin.action(description="Resume: fire from the next tick on", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        self.perform(request, queryset, "schedule_resume", "resumed", schedules.resume)
