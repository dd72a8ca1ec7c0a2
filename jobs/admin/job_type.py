"""Job types: pause, resume, and how many may run at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse

from jobs import database, live, registry, type_control
from jobs.admin.table_page import TablePageAdmin, refused
from jobs.breakers.overview import read_breakers, states_by_type
from jobs.dashboard.depth import Count, read_types
from jobs.models import JobTypeState
from jobs.registry import JobType

MOST_TYPES = 500
COUNTED = 10_000
"""Running and failed jobs are told by type among so many."""
HIGHEST_LIMIT = 1_000_000


@dataclass(frozen=True)
class Row:
    """A type as the page shows it."""

    name: str
    state: JobTypeState
    kind: JobType | None
    """None: this process does not know it; a worker did."""
    pending: Count
    running: int
    failed: Count
    breaker: str = ""
    """The state of the breaker it depends on, unless that is closed."""

    @property
    def status(self) -> str:
        return "paused" if self.state.paused else f"breaker {self.breaker}" if self.breaker else ""

    @property
    def declared(self) -> int | None:
        return self.kind.concurrency if self.kind else None

    @property
    def limit(self) -> int | None:
        return self.declared if self.state.concurrency is None else self.state.concurrency


def read_rows() -> list[Row]:
    states = {state.name: state for state in JobTypeState.objects.all()[:MOST_TYPES]}
    kinds = {kind.name: kind for kind in registry.all_types()[:MOST_TYPES]}
    names = sorted(states.keys() | kinds.keys())
    pending = read_types(names)
    running = _by_type("status = 'processing'", "worker_id")
    failed = _by_type("status = 'failed'", "id DESC")
    breakers = states_by_type(read_breakers(only_rows=True))
    all_failed = sum(failed.values()) < COUNTED
    return [
        Row(
            name,
            states.get(name) or JobTypeState(name=name),
            kinds.get(name),
            pending[name].pending,
            running.get(name, 0),
            Count(failed.get(name, 0), is_bound=not all_failed and name in failed),
            breakers.get(name, ""),
        )
        for name in names
    ]


def _by_type(condition: str, order: str) -> dict[str, int]:
    rows = database.fetch(
        f"""
        SELECT type, count(*) FROM (
            SELECT type FROM jobs_job WHERE {condition} ORDER BY {order} LIMIT {COUNTED}) AS counted
        GROUP BY type
        """
    )
    return dict(rows)


def _values(rows: list[Row]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for number, row in enumerate(rows):
        state |= {
            f"type.{number}.name": row.name,
            f"type.{number}.status": row.status,
            f"type.{number}.pending": str(row.pending),
            f"type.{number}.running": row.running,
            f"type.{number}.failed": str(row.failed),
            f"type.{number}.is_paused": row.state.paused,
            f"type.{number}.is_open": not row.state.paused,
        }
    return state


@admin.register(JobTypeState)
class JobTypeStateAdmin(TablePageAdmin):
    """Every type that this process or a worker knows, whether it has a row or not."""

    page_title = "Job types"
    page_template = "admin/jobs/jobtypestate/types.html"
    deed = "act"

    def read_page(self, request: HttpRequest) -> dict[str, Any]:
        sees_jobs = request.user.has_perm("jobs.view_job") or request.user.has_perm("jobs.change_job")
        return {"rows": read_rows(), "sees_jobs": sees_jobs}

    def read_state(self) -> live.State:
        return _values(read_rows())

    def act(self, request: HttpRequest) -> HttpResponse | None:
        name, verb = request.POST.get("name", ""), request.POST.get("verb", "")
        if not _is_known(name):
            return refused("No such job type.", 404)
        if verb in ("pause", "resume"):
            done = "paused" if verb == "pause" else "resumed"
            self.tell(request, name, done, getattr(type_control, verb)([name]), code=f"type_{verb}")
        elif verb == "limit":
            self._limit(request, name, request.POST.get("concurrency", "").strip())
        else:
            return refused("No such verb.", 400)
        return None

    def _limit(self, request: HttpRequest, name: str, given: str) -> None:
        number = int(given) if given.isdecimal() and len(given) < 10 else None
        if given and (number is None or not 1 <= number <= HIGHEST_LIMIT):
            self.message_user(
                request,
                f"A limit is a whole number from 1 to {HIGHEST_LIMIT:,}, or empty: as declared. "
                "To stop a type, pause it.",
                messages.ERROR,
                extra_tags="type_bad_limit",
            )
            return
        said = "limited as declared" if number is None else f"limited to {number:,} at once"
        self.tell(request, name, said, type_control.limit([name], number), code="type_limit")


def _is_known(name: str) -> bool:
    known = registry.find(name) is not None
    return known or ("\0" not in name and JobTypeState.objects.filter(pk=name).exists())
