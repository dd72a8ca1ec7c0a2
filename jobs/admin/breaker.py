"""Circuit breakers: their state, why and since when, what depends on them; and the button that closes one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from jobs import live
from jobs.admin.table_page import TablePageAdmin, refused
from jobs.breakers import circuits
from jobs.breakers.overview import BreakerView, read_breakers
from jobs.models import Breaker


@admin.register(Breaker)
class BreakerAdmin(TablePageAdmin):
    """Every breaker that has failed once or that the code of this process names."""

    page_title = "Circuit breakers"
    page_template = "admin/jobs/breaker/breakers.html"
    deed = "reset"

    def read_page(self, request: HttpRequest) -> dict[str, Any]:
        return {"breakers": read_breakers()}

    def read_state(self) -> live.State:
        return read_rows()

    def act(self, request: HttpRequest) -> HttpResponse | None:
        name = request.POST.get("name", "")
        known = "\0" not in name and Breaker.objects.filter(pk=name).exists()
        if not known:
            return refused("No such breaker.", 404)
        self.tell(request, name, "closed", circuits.reset([name]), code="breaker_reset", logged="reset")
        return None


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
