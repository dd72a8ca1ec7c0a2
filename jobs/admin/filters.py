"""The filters of the jobs' list. None asks the table which values there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format

from jobs import database, registry
from jobs.admin.window import Chosen
from jobs.dashboard.depth import Count, read_depth
from jobs.exceptions import BadValue
from jobs.models import DERIVED_STATES, JobTypeState, Status, Worker
from jobs.priorities import labels, parse_priority
from jobs.ulid import ulid_floor

MOST_WORKERS = 100
OLDER_THAN = "before"

_PERIODS = {
    "1h": ("past hour", timedelta(hours=1)),
    "24h": ("past 24 hours", timedelta(days=1)),
    "7d": ("past 7 days", timedelta(days=7)),
    "30d": ("past 30 days", timedelta(days=30)),
}


def chosen_in(parameters: Mapping[str, Any]) -> Chosen:
    """What the address of the page asks for, as far as indexes care."""
    floor, end = created_range(str(parameters.get("created", "")))
    before = str(parameters.get(OLDER_THAN, ""))
    return Chosen(
        status=str(parameters.get("status__exact", "")),
        state=str(parameters.get("state", "")),
        type=str(parameters.get("type", "")),
        workflow=str(parameters.get("workflow", "")),
        floor=floor,
        ceiling=min(before or end, end or before),
    )


def created_range(value: str) -> tuple[str, str]:
    """The first id of the period, and the first after it; empty: open. An id tells when it was made."""
    if value in _PERIODS:
        return ulid_floor((database.read_clock() - _PERIODS[value][1]).timestamp()), ""
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return "", ""
    last = day == date.max
    return _first_id_of(day), "" if last else _first_id_of(day + timedelta(days=1))


def _first_id_of(day: date) -> str:
    return ulid_floor(datetime.combine(day, time(), timezone.get_current_timezone()).timestamp())


class JobFilter(admin.SimpleListFilter):
    """Choosing anew starts with the newest jobs again."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            value = choice["query_string"]
            yield {**choice, "query_string": _without(value, OLDER_THAN)}


def _without(query: str, name: str) -> str:
    kept = [part for part in query.lstrip("?").split("&") if part and not part.startswith(f"{name}=")]
    return "?" + "&".join(kept)


class StatusFilter(JobFilter):
    title = "status"
    parameter_name = "status__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        depth = read_depth()
        counts = {
            "waiting": (depth.scheduled, depth.blocked),
            "pending": (depth.pending,),
            "failed": (depth.failed,),
        }
        return [(status, f"{status}{_counted(counts.get(status, ()))}") for status in Status.values]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(status=self.value()) if self.value() else queryset


def _counted(counts: Sequence[Count]) -> str:
    if not counts:
        return ""
    total = Count(
        sum(count.value for count in counts),
        is_estimate=any(count.is_estimate for count in counts),
        is_bound=any(count.is_bound for count in counts),
    )
    return f" ({total})"


class DerivedStateFilter(JobFilter):
    title = "derived state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state) for state in DERIVED_STATES]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        chosen = self.value()
        return getattr(queryset, chosen)() if chosen in DERIVED_STATES else queryset


class TypeFilter(JobFilter):
    title = "type"
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        known = {kind.name for kind in registry.all_types()}
        known |= set(JobTypeState.objects.values_list("name", flat=True)[:1000])
        return [(name, name) for name in sorted(known)]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(type=self.value()) if self.value() else queryset


class WorkerFilter(JobFilter):
    """Jobs that a worker runs, or has run last."""

    title = "worker"
    parameter_name = "worker"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(Worker.objects.judged().order_by("name").values_list("pk", "name")[:MOST_WORKERS])

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(processed_by_worker_id=self.value()) if self.value() else queryset


class PriorityFilter(JobFilter):
    title = "priority"
    parameter_name = "priority"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*((str(number), name) for name, number in labels().items()), ("other", "other")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value() or ""
        if value == "other":
            return queryset.exclude(priority__in=labels().values())
        try:
            return queryset.filter(priority=parse_priority(value))
        except BadValue:
            return queryset


class CreatedFilter(JobFilter):
    """A period, or any day."""

    title = "date created"
    parameter_name = "created"
    template = "admin/jobs/job/created_filter.html"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, title) for value, (title, _) in _PERIODS.items()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        first, end = created_range(self.value() or "")
        within = Q(pk__gte=first) if first else Q()
        return queryset.filter(within & Q(pk__lt=end) if end else within)

    def choices(self, changelist: Any) -> Iterator[Any]:
        choices = list(super().choices(changelist))
        yield from choices
        value = self.value() or ""
        yield {
            "is_day": True,
            "day": "" if value in _PERIODS else value,
            "others": {
                name: given
                for name, given in changelist.params.items()
                if name not in (self.parameter_name, OLDER_THAN)
            },
        }


class GivenFilter(JobFilter):
    """Shown only while it is in use: it comes from a link, not from a list of choices."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = request.GET.get(str(self.parameter_name), "")
        return [(value, self.describe(value))] if value else []

    def describe(self, value: str) -> str:
        return value


class WorkflowFilter(GivenFilter):
    title = "workflow"
    parameter_name = "workflow"

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(workflow=self.value())


class OlderFilter(GivenFilter):
    """The window before this job."""

    title = "age"
    parameter_name = OLDER_THAN

    def describe(self, value: str) -> str:
        return f"before {made_at(value)}"

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(pk__lt=self.value())


_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def made_at(ulid: str) -> str:
    """When an identifier was made, for people."""
    try:
        milliseconds = 0
        for letter in ulid[:10].upper():
            milliseconds = milliseconds * 32 + _DIGITS.index(letter)
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
        return date_format(timezone.localtime(moment), "DATETIME_FORMAT")
    except (ValueError, OverflowError, OSError):
        return ulid
