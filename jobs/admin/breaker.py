"""Circuit breakers: their state, why and since when, what depends on them; and the button that closes one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString

from jobs import live
from jobs.admin.base import ReadOnlyAdmin, stream_view
from jobs.admin.log import log_rows
from jobs.breakers import circuits
from jobs.breakers.overview import BreakerView, read_breakers
from jobs.models import Breaker


@admin.register(Breaker)
class BreakerAdmin(ReadOnlyAdmin):
    """Every breaker that has failed once or that the code of this process names."""

    def get_urls(self) -> list[Any]:
        return [
            path("live/", stream_view(self.admin_site, self.live_view), name="jobs_breaker_live"),
            path("reset/", self.admin_site.admin_view(self.reset), name="jobs_breaker_reset"),
            *super().get_urls(),
        ]

    def _check_view(self, request: HttpRequest) -> None:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self._check_view(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        context = {
            **self.admin_site.each_context(request),
            "title": "Circuit breakers",
            "opts": self.opts,
            "media": self.media,
            "breakers": read_breakers(),
            "may_change": self.has_change_permission(request),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/jobs/breaker/breakers.html", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        self._check_view(request)
        return redirect(self._address())

    def live_view(self, request: HttpRequest) -> HttpResponseBase:
        self._check_view(request)
        return live.stream(request, [live.Topic("breakers", read_rows, every=1.0)])

    def reset(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_change_permission(request):
            raise PermissionDenied
        name = request.POST.get("name", "")
        known = "\0" not in name and Breaker.objects.filter(pk=name).exists()
        if not known:
            return HttpResponse("No such breaker.", status=404, content_type="text/plain")
        if circuits.reset([name]):
            log_rows(request, Breaker, [name], "reset")
            self.message_user(request, f"The breaker {name} is closed.", messages.SUCCESS)
        else:
            self.message_user(request, f"Nothing was done: {name} is closed already.", messages.WARNING)
        return redirect(self._address())

    def _address(self) -> str:
        return reverse("admin:jobs_breaker_changelist", current_app=self.admin_site.name)


def read_rows() -> live.State:
    state: dict[str, Any] = {}
    for view in read_breakers():
        state |= {
            f"breaker.{view.name}.state": view.state,
            f"breaker.{view.name}.facts": _render("facts", view),
            f"breaker.{view.name}.reason": _render("reason", view),
            f"breaker.{view.name}.disturbed": view.is_disturbed,
        }
    return state


def _render(part: str, view: BreakerView) -> SafeString:
    return render_to_string(f"admin/jobs/breaker/{part}.html", {"breaker": view})
