"""The page of one schedule: when it fires next and has fired, and its buttons."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html

from jobs.admin.log import log_rows
from jobs.exceptions import EnqueueRefused
from jobs.models import Firing, Schedule
from jobs.models.schedule import Source
from jobs.timetable import schedules
from jobs.timetable.expressions import BadExpression

NEXT_SHOWN = 5
FIRINGS_SHOWN = 20


def address_of(admin: Any, name: str) -> str:
    return reverse("admin:jobs_schedule_change", args=[quote(name)], current_app=admin.admin_site.name)


def job_address(admin: Any, job_id: str) -> str:
    return reverse("admin:jobs_job_change", args=[job_id], current_app=admin.admin_site.name)


def status_of(row: Schedule) -> str:
    if row.removed:
        return "removed"
    return "paused" if row.paused else "active"


def coming(when: datetime) -> str:
    """A moment ahead as "3 min"; the whole of it to hover over, and without scripts."""
    text = date_format(timezone.localtime(when), "DATETIME_FORMAT")
    return format_html(
        'in <time datetime="{}" data-live-time="left" title="{}">{}</time>', when.isoformat(), text, text
    )


def context_of(admin: Any, request: HttpRequest, row: Schedule) -> dict[str, Any]:
    return {
        "schedule": row,
        "status": status_of(row),
        "is_of_code": row.source == Source.CODE,
        "next_firing": coming(row.next_at) if row.next_at else "",
        "next_ticks": _next_ticks(row),
        "firings": Firing.objects.filter(schedule=row).order_by("-tick", "-pk")[:FIRINGS_SHOWN],
        "may_act": admin.has_change_permission(request),
        "sees_jobs": request.user.has_perm("jobs.view_job") or request.user.has_perm("jobs.change_job"),
        "site": admin.admin_site.name,
        "timezones": timezones(),
    }


@cache
def timezones() -> list[str]:
    return sorted(available_timezones())


def _next_ticks(row: Schedule) -> list[str]:
    """In the schedule's own time zone."""
    if row.next_at is None:
        return []
    try:
        ticks, expression = [row.next_at], schedules.expression_of(row)
    except BadExpression:
        return []
    while len(ticks) < NEXT_SHOWN:
        ticks.append(expression.after(ticks[-1]))
    return [f"{expression.local(tick):%a %Y-%m-%d %H:%M:%S %Z}" for tick in ticks]


def act(admin: Any, request: HttpRequest, name: str) -> HttpResponse:
    """POST verb: pause, resume or run."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    if not admin.has_change_permission(request):
        raise PermissionDenied
    name = unquote(name)
    if "\0" in name or not Schedule.objects.filter(pk=name).exists():
        raise Http404("There is no such schedule.")
    verb = request.POST.get("verb", "")
    if verb == "run":
        _run(admin, request, name)
    elif verb in ("pause", "resume"):
        done = "paused" if verb == "pause" else "resumed"
        changed = getattr(schedules, verb)([name])
        log_rows(request, Schedule, changed, done)
        said = (
            f"The schedule {name} is {done}."
            if changed
            else f"Nothing was done: {name} cannot be {done} now."
        )
        level = messages.SUCCESS if changed else messages.WARNING
        admin.message_user(request, said, level, extra_tags=f"schedule_{verb}")
    else:
        return HttpResponse("No such verb.", status=400, content_type="text/plain")
    return redirect(address_of(admin, name))


def _run(admin: Any, request: HttpRequest, name: str) -> None:
    try:
        job = schedules.run_now(name)
    except EnqueueRefused as refusal:
        said = f"Nothing was enqueued: {refusal}"
        admin.message_user(request, said, messages.ERROR, extra_tags="schedule_run")
        return
    if job is None:
        raise Http404("There is no such schedule.")
    log_rows(request, Schedule, [name], f"run now: job {job.pk}")
    admin.message_user(
        request,
        format_html('A job was enqueued: <a href="{}">{}</a>', job_address(admin, job.pk), job.pk),
        messages.SUCCESS,
        extra_tags="schedule_run",
    )
