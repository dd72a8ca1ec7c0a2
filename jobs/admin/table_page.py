"""A model of few rows as one page: a table that moves by itself, with buttons in its rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from jobs import live
from jobs.admin.base import ReadOnlyAdmin, stream_view
from jobs.admin.log import log_rows


class TablePageAdmin(ReadOnlyAdmin):
    page_title: str
    page_template: str
    """Extends admin/jobs/table_page.html."""
    deed: str
    """The end of the address that the buttons POST to."""

    @abstractmethod
    def read_page(self, request: HttpRequest) -> dict[str, Any]:
        """What the template shows."""

    @abstractmethod
    def read_state(self) -> live.State:
        """What changes while somebody looks at it."""

    @abstractmethod
    def act(self, request: HttpRequest) -> HttpResponse | None:
        """What a button of a row demands, of somebody who may; a refusal, or nothing when it was done."""

    def get_urls(self) -> list[Any]:
        name = f"jobs_{self.opts.model_name}"
        return [
            path("live/", stream_view(self.admin_site, self.live_view), name=f"{name}_live"),
            path(f"{self.deed}/", self.admin_site.admin_view(self.deed_view), name=f"{name}_{self.deed}"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self._check_view(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        context = {
            **self.admin_site.each_context(request),
            "title": self.page_title,
            "opts": self.opts,
            "media": self.media,
            "may_change": self.has_change_permission(request),
            **self.read_page(request),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, self.page_template, context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        self._check_view(request)
        return self._to_the_table()

    def live_view(self, request: HttpRequest) -> HttpResponseBase:
        self._check_view(request)
        topic = live.Topic(f"table:{self.opts.model_name}", self.read_state, every=1.0)
        return live.stream(request, [topic])

    def deed_view(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_change_permission(request):
            raise PermissionDenied
        return self.act(request) or self._to_the_table()

    def tell(
        self,
        request: HttpRequest,
        name: str,
        is_now: str,
        changed: list[str],
        *,
        code: str,
        logged: str = "",
    ) -> None:
        """What was done, to whoever asked and in the admin's log; or that nothing was."""
        if changed:
            log_rows(request, self.model, changed, logged or is_now)
            said, level = f"The {self.opts.verbose_name} {name} is {is_now}.", messages.SUCCESS
        else:
            said, level = f"Nothing was done: {name} is {is_now} already.", messages.WARNING
        self.message_user(request, said, level, extra_tags=code)

    def _check_view(self, request: HttpRequest) -> None:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied

    def _to_the_table(self) -> HttpResponse:
        name = f"admin:jobs_{self.opts.model_name}_changelist"
        return redirect(reverse(name, current_app=self.admin_site.name))


def refused(text: str, status: int) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain")
