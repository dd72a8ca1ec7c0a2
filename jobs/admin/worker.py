"""Workers: who is there, what they do, and who may go on."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import fleet, live
from jobs.admin import worker_page
from jobs.admin.base import ReadOnlyAdmin, live_badge, moment, stream_view
from jobs.models import Job, Worker, WorkerKind, WorkerStatus

MOST_FOLLOWED = 200
RUNNING_FIELDS = ("id", "type", "worker", "status", "progress_percent", "current_step", "claimed_at")


class RemoteWorkerForm(forms.ModelForm):  # type: ignore[type-arg]
    """A worker on another machine: it needs a name; the rest it tells by itself."""

    class Meta:
        model = Worker
        fields = ("name",)


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ("who", "shown_state", "heartbeat", "running", "abilities")
    list_display_links = None
    list_filter = ("status", "disabled", "kind")
    search_fields = ("name",)
    search_help_text = "a part of the name"
    sortable_by = ()
    list_per_page = 50
    show_full_result_count = False
    form = RemoteWorkerForm
    actions = ("disable", "enable", "drain", "forget")

    def get_queryset(self, request: HttpRequest) -> Any:
        workers: Any = super().get_queryset(request)
        running = Job.objects.leased().only(*RUNNING_FIELDS).order_by("claimed_at")
        return workers.judged().prefetch_related(Prefetch("running_jobs", running))

    def get_urls(self) -> list[Any]:
        stream = partial(stream_view, self.admin_site)
        pages = {
            "act": worker_page.act,
            "issue-key": worker_page.issue_key,
            "revoke-key": worker_page.revoke_key,
        }
        return [
            path("live/", stream(self.live_view), name="jobs_worker_list_live"),
            path(
                "<str:worker_id>/live/", stream(partial(worker_page.live_view, self)), name="jobs_worker_live"
            ),
            *(
                path(
                    f"<str:worker_id>/{name}/",
                    self.admin_site.admin_view(partial(view, self)),
                    name=f"jobs_worker_{name.replace('-', '_')}",
                )
                for name, view in pages.items()
            ),
            *super().get_urls(),
        ]

    def live_view(self, request: HttpRequest) -> HttpResponseBase:
        worker_page.check_view(self, request)
        site = self.admin_site.name
        return live.stream(request, [live.Topic(f"workers:{site}", partial(read_workers, site))])

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Local workers register by themselves; one that will come over HTTPS is announced here."""
        return request.user.has_perm("jobs.add_worker")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return super().get_readonly_fields(request, obj) if obj else []

    def save_model(self, request: HttpRequest, obj: Worker, form: Any, change: bool) -> None:
        obj.kind = WorkerKind.REMOTE
        obj.status = WorkerStatus.OFFLINE
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: Worker, post_url_continue: str | None = None
    ) -> HttpResponse:
        said = f"The worker {obj.name} was added. Issue a key for it."
        self.message_user(request, said, extra_tags="worker_add")
        return redirect(worker_page.address_of(self, obj.pk))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return worker_page.show(self, request, object_id)

    # -- columns -------------------------------------------------------------------------------------------------------

    @admin.display(description="worker")
    def who(self, worker: Worker) -> SafeString:
        return format_html(
            '<a href="{}"><strong>{}</strong></a><div class="sp-quiet">{}</div>',
            worker_page.address_of(self, worker.pk),
            worker.name,
            worker_page.machine_of(worker),
        )

    @admin.display(description="status")
    def shown_state(self, worker: Worker) -> SafeString:
        draining = f"worker.{worker.pk}.draining"
        return format_html(
            '{} <span class="sp-badge" data-status="draining" data-live-show="{}"{}>draining</span>',
            live_badge(worker.state, f"worker.{worker.pk}.status"),
            draining,
            "" if worker.draining else SafeString(" hidden"),
        )

    @admin.display(description="heartbeat")
    def heartbeat(self, worker: Worker) -> str:
        return moment(worker.last_heartbeat, otherwise="never", live=f"worker.{worker.pk}.heartbeat")

    @admin.display(description="running jobs")
    def running(self, worker: Worker) -> SafeString:
        return format_html(
            '<div data-live="worker.{}.running">{}</div>',
            worker.pk,
            running_html(worker, self.admin_site.name),
        )

    @admin.display(description="abilities")
    def abilities(self, worker: Worker) -> SafeString:
        types = len(worker.job_types)
        return format_html(
            '<span title="{}">{}</span><div class="sp-quiet sp-clip">{}</div>',
            ", ".join(map(str, worker.job_types)),
            f"{types} {'type' if types == 1 else 'types'}, {worker.concurrency} at a time",
            ", ".join(map(str, worker.capabilities)),
        )

    # -- actions -------------------------------------------------------------------------------------------------------

    @admin.action(description="Disable: claim nothing until enabled", permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self.perform(request, queryset, "worker_disable", "disabled", fleet.disable)
        live.hint_on_commit()

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self.perform(request, queryset, "worker_enable", "enabled", fleet.enable)
        live.hint_on_commit()

    @admin.action(description="Drain: finish running jobs, then stop", permissions=["change"])
    def drain(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self.perform(request, queryset, "worker_drain", "asked to drain", fleet.drain)
        live.hint_on_commit()

    @admin.action(description="Forget those that are offline and hold no job", permissions=["forget"])
    def forget(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self.perform(request, queryset, "worker_forget", "forgotten", fleet.forget)
        live.hint_on_commit()

    def has_forget_permission(self, request: HttpRequest) -> bool:
        return worker_page.WORKER_VERBS["forget"].is_permitted(request.user)


def running_html(worker: Worker, site: str) -> SafeString:
    context = {"jobs": list(worker.running_jobs.all()), "concurrency": worker.concurrency, "site": site}
    return render_to_string("admin/jobs/worker/running.html", context)


def read_workers(site: str) -> live.State:
    running = Job.objects.leased().only(*RUNNING_FIELDS).order_by("claimed_at")
    state: dict[str, Any] = {}
    for worker in Worker.objects.judged().prefetch_related(Prefetch("running_jobs", running))[:MOST_FOLLOWED]:
        state |= worker_page.worker_values(worker)
        state[f"worker.{worker.pk}.running"] = running_html(worker, site)
    return state
