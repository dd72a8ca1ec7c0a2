"""Jobs: the list, and the lifecycle's own verbs as actions. Nothing here writes a status itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.admin import bulk, filters, job_page
from jobs.admin.base import ReadOnlyAdmin, bar, live_badge, moment, stream_view
from jobs.admin.changelist import PREVIEW, JobChangeList
from jobs.admin.verbs import VERBS, Verb
from jobs.models import Job, Status
from jobs.priorities import priority_label

Action = Callable[[Any, HttpRequest, Any], HttpResponse | None]


def _action(verb: Verb) -> Action:
    @admin.action(description=verb.label, permissions=[verb.permission])
    def action(model_admin: Any, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return bulk.run_action(model_admin, verb, request, queryset)

    action.__name__ = verb.name
    return action


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ("what", "state", "progress", "worker_name", "created")
    list_display_links = None
    list_filter = (
        filters.StatusFilter,
        filters.DerivedStateFilter,
        filters.TypeFilter,
        filters.PriorityFilter,
        filters.WorkerFilter,
        filters.CreatedFilter,
        filters.WorkflowFilter,
        filters.OlderFilter,
    )
    search_fields = ("=id",)  # shows the search box; admin/search.py does the work
    search_help_text = (
        "An id or its start, a correlation id, workflow or unique key; or a text in recent payloads."
    )
    ordering = ("-id",)
    sortable_by = ()
    list_per_page = 50
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_select_related = False
    actions = tuple(_action(verb) for verb in VERBS)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobChangeList]:
        return JobChangeList

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        return queryset, False  # JobChangeList searches

    def has_discard_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.delete_job")

    def get_urls(self) -> list[Any]:
        stream = partial(stream_view, self.admin_site)
        act = self.admin_site.admin_view(partial(job_page.act_view, self))
        return [
            path("live/", stream(partial(job_page.list_live_view, self)), name="jobs_job_list_live"),
            path("<str:job_id>/live/", stream(partial(job_page.live_view, self)), name="jobs_job_live"),
            path("<str:job_id>/act/", act, name="jobs_job_act"),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return job_page.show(self, request, object_id)

    # -- columns -------------------------------------------------------------------------------------------------------

    @admin.display(description="job")
    def what(self, job: Job) -> SafeString:
        preview = getattr(job, "preview", "")
        return format_html(
            '<a class="sp-job" href="{}" title="{}"><strong>{}</strong> <code>…{}</code></a>{}'
            '<div class="sp-quiet sp-clip">{}</div>',
            job_page.address_of(self, job.pk),
            job.pk,
            job.type,
            job.pk[-6:],
            _urgency_chip(job),
            "" if preview == "{}" else preview + ("…" if len(preview) == PREVIEW else ""),
        )

    @admin.display(description="status")
    def state(self, job: Job) -> SafeString:
        again = (
            format_html(
                '<div class="sp-quiet">attempt <span data-live="job.{}.attempts">{}</span></div>',
                job.pk,
                f"{job.attempt_number} of {job.max_attempts}",
            )
            if job.attempt_number > 1
            else ""
        )
        return format_html("{}{}", live_badge(job.status, f"job.{job.pk}.status"), again)

    @admin.display
    def progress(self, job: Job) -> SafeString:
        error = job.last_error if job.status in (Status.FAILED, Status.WAITING, Status.PENDING) else ""
        return format_html(
            '<div data-live-show="job.{id}.running"{hidden}>{bar}'
            '<div class="sp-quiet sp-clip" data-live="job.{id}.step">{step}</div></div>'
            '<div class="sp-error sp-clip" title="{error}">{first}</div>',
            id=job.pk,
            hidden="" if job.status == Status.PROCESSING else SafeString(" hidden"),
            bar=bar(job.progress_percent, f"job.{job.pk}.percent"),
            step=job.current_step,
            error=error[:1000],
            first=error[:200],
        )

    @admin.display(description="worker")
    def worker_name(self, job: Job) -> SafeString:
        return format_html(
            '<span data-live="job.{}.worker">{}</span>', job.pk, job.processed_by_worker_name or "–"
        )

    @admin.display(description="created")
    def created(self, job: Job) -> str:
        return moment(job.created_at)


def _urgency_chip(job: Job) -> str:
    label = priority_label(job.priority)
    urgency = f"priority {label}" if label == str(job.priority) else label
    return "" if label == "normal" else format_html(' <span class="sp-chip">{}</span>', urgency)
