"""Is the queue alive: its database, its workers, what waits, Redis. Asked often, so it costs next to nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse

from jobs import conf, database, fleet, schema

COUNTED = 10_000


@dataclass(frozen=True)
class Health:
    database: bool
    active_workers: int | None = None
    pending_jobs: int | None = None
    """Counted up to COUNTED."""
    redis: bool | None = None
    """None: the queue works without it."""
    reasons: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        if not self.database:
            return "failing"
        return "degraded" if self.reasons else "ok"

    @property
    def http_status(self) -> int:
        """Only what another web process could do better is a reason to send visitors there."""
        return 200 if self.database else 503

    def as_dict(self) -> dict[str, Any]:
        return {"status": self.status, **asdict(self)}


def examine() -> Health:
    try:
        if schema.missing():
            return Health(database=False, reasons=["The database is older than the code: run migrate."])
        active = sum(1 for worker in fleet.living() if not worker.disabled)
        pending = database.fetch(
            "SELECT count(*) FROM (SELECT 1 FROM jobs_job WHERE status = 'pending'"
            f" ORDER BY type, priority, run_at, id LIMIT {COUNTED}) AS counted"
        )[0][0]
    except DatabaseError:
        return Health(database=False, reasons=["The database does not answer."])
    redis = _redis_answers()
    reasons = [f"No worker is running, and {_waiting(pending)}."] if pending and not active else []
    if redis is False:
        reasons.append("Redis does not answer; jobs are found without it.")
    return Health(database=True, active_workers=active, pending_jobs=pending, redis=redis, reasons=reasons)


def _waiting(pending: int) -> str:
    if pending == 1:
        return "1 job is pending"
    return f"{pending:,} {'or more ' if pending == COUNTED else ''}jobs are pending"


def _redis_answers() -> bool | None:
    if conf.current().queue_mode == "database":
        return None
    from jobs.wakeup import redis_link

    return redis_link.link().answers()


def view(request: HttpRequest) -> HttpResponse:
    """GET /health"""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    health = examine()
    return JsonResponse(health.as_dict(), status=health.http_status, headers={"Cache-Control": "no-store"})
