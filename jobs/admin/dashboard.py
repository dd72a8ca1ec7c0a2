"""The dashboard: one page, its live stream, and the switches of the job types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.views.decorators.http import require_POST

from jobs import live, registry, type_control
from jobs.dashboard.addresses import Addresses
from jobs.dashboard.reading import Reading
from jobs.dashboard.topics import dashboard_topics, summary_topics
from jobs.live.job_topics import topics_of
from jobs.live.offers import BadTopic
from jobs.live.views import may_see, refusal
from jobs.models import Dashboard, JobTypeState

LARGEST_LIMIT = 1_000_000


@admin.register(Dashboard)
class DashboardAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Registering it on an admin site also puts the summary on that site's first page (docs/adr/0009)."""

    def __init__(self, model: type[Dashboard], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        if admin_site.index_template is None:
            admin_site.index_template = "admin/jobs/index.html"

    def get_urls(self) -> list[Any]:
        wrap = self.admin_site.admin_view
        return [
            path("", wrap(self.dashboard_view), name="jobs_dashboard_changelist"),
            path("live/", self.live_view, name="jobs_dashboard_live"),
            path("types/", wrap(require_POST(self.types_view)), name="jobs_dashboard_control"),
        ]

    # -- who may -----------------------------------------------------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_see(request.user, "job")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    # -- the page ----------------------------------------------------------------------------------------------------

    def dashboard_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        addresses = Addresses(self.admin_site.name)
        context = {
            **self.admin_site.each_context(request),
            "title": "Dashboard",
            "opts": self.opts,
            "reading": Reading(addresses),
            "addresses": addresses,
            "may_see_workers": may_see(request.user, "worker"),
            "may_see_types": may_see(request.user, "jobtypestate"),
            "may_see_breakers": may_see(request.user, "breaker"),
            "may_change_types": request.user.has_perm("jobs.change_jobtypestate"),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/jobs/dashboard.html", context)

    # -- its stream --------------------------------------------------------------------------------------------------

    def live_view(self, request: HttpRequest) -> HttpResponseBase:
        """`?dashboard`, `?summary`, `?job=…`, `?workflow=…`. A login page would mean nothing to an EventSource."""
        if not self.admin_site.has_permission(request):
            return refusal(401, "not_signed_in", "Sign in to the admin.")
        if not self.has_view_permission(request):
            return refusal(403, "forbidden", "You may not see jobs.")
        try:
            topics = topics_of(request.GET)
        except BadTopic as problem:
            return refusal(400, "bad_topic", str(problem))
        site = self.admin_site.name
        if "dashboard" in request.GET:
            topics += dashboard_topics(
                site,
                workers=may_see(request.user, "worker"),
                types=may_see(request.user, "jobtypestate"),
                breakers=may_see(request.user, "breaker"),
            )
        elif "summary" in request.GET:
            topics += summary_topics(site)
        if not topics:
            return refusal(
                400, "bad_topic", "Say what to follow: ?dashboard, ?summary, ?job=… or ?workflow=…"
            )
        return live.stream(request, topics)

    # -- its switches ------------------------------------------------------------------------------------------------

    def types_view(self, request: HttpRequest) -> HttpResponse:
        """POST name and do: pause, resume, or limit with a number (empty: as declared)."""
        if not request.user.has_perm("jobs.change_jobtypestate"):
            raise PermissionDenied
        name = request.POST.get("name", "")
        if registry.find(name) is None and not JobTypeState.objects.filter(name=name).exists():
            raise Http404(f"There is no job type {name[:100]!r}.")
        do = request.POST.get("do", "")
        try:
            change, done, already = _order(do, request.POST.get("limit", ""))
        except BadOrder as problem:
            self.message_user(request, str(problem), messages.ERROR, extra_tags=problem.code)
        else:
            changed = change([name])
            if changed:
                states = JobTypeState.objects.filter(name__in=changed)
                LogEntry.objects.log_actions(request.user.pk, states, CHANGE, done)  # type: ignore[arg-type]
            said = f"The job type {name} was {done}." if changed else f"Nothing to do: {name} {already}."
            level = messages.SUCCESS if changed else messages.INFO
            self.message_user(request, said, level, extra_tags=f"type_{do}")
        return redirect(f"{Addresses(self.admin_site.name).dashboard()}#types")


Change = Callable[[list[str]], list[str]]


class BadOrder(ValueError):
    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


def _order(do: str, limit: str) -> tuple[Change, str, str]:
    """What to do, and how to say that it was done or was so already. Raises BadOrder."""
    if do == "pause":
        return type_control.pause, "paused", "is paused already"
    if do == "resume":
        return type_control.resume, "resumed", "is not paused"
    if do != "limit":
        raise BadOrder("Pause, resume or limit?", code="type_bad_verb")
    if not limit.strip():
        return lambda names: type_control.limit(names, None), "limited as declared", "is limited as declared"
    if not re.fullmatch(r"\d{1,7}", limit.strip(), re.ASCII) or int(limit) > LARGEST_LIMIT:
        raise BadOrder(f"A limit is a whole number from 0 to {LARGEST_LIMIT:,}.", code="type_bad_limit")
    number = int(limit)
    return (
        lambda names: type_control.limit(names, number),
        f"limited to {number:,} at once",
        f"is limited to {number:,} at once",
    )
