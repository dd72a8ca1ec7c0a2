"""The admin API of the queue: the buttons of the admin for scripts, with the same permissions and the same log."""

from __future__ import annotations

from typing import Annotated, Any

from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch
from django.http import HttpRequest
from ninja import Path, Query, Router

from jobs import fleet, live, registry, worker_keys
from jobs.admin import bulk, window
from jobs.admin.log import log_rows
from jobs.admin.verbs import BY_NAME, Order
from jobs.admin.worker_page import WORKER_VERBS
from jobs.api import staff_schemas as schemas
from jobs.api.authentication import STAFF
from jobs.api.errors import NOT_FOUND, Refusal, refusals
from jobs.breakers.overview import read_breakers
from jobs.dashboard.depth import read_depth, read_types
from jobs.exceptions import BadValue
from jobs.live.views import may_see
from jobs.models import Job, JobTypeState, Worker
from jobs.priorities import parse_priority
from jobs.ulid import PATTERN, is_ulid

router = Router(tags=["admin"], auth=STAFF)

MOST = 200
_STAFF = (401, 403, 429, 503)

Limit = Annotated[int, Query(ge=1, le=MOST, description="rows per page")]
Cursor = Annotated[
    str,
    Query(pattern=rf"^({PATTERN})?$", description="`next` of the page before; empty: the first page"),
]
TypeFilter = Annotated[str, Query(max_length=100)]
PriorityFilter = Annotated[
    str, Query(max_length=30, description="a label (high, normal, low) or a whole number")
]
Id = Annotated[str, Path()]


class StaffRequest(HttpRequest):
    user: Any


# -- jobs --------------------------------------------------------------------------------------------------------------


@router.get("jobs", response={200: schemas.JobPage, **refusals(*_STAFF, 422)}, summary="List jobs")
def jobs(
    request: StaffRequest,
    status: schemas.JobStatus | None = None,
    state: schemas.DerivedState | None = None,
    type: TypeFilter = "",
    priority: PriorityFilter = "",
    workflow: Cursor = "",
    cursor: Cursor = "",
    limit: Limit = 50,
) -> schemas.JobPage:
    """Newest first. One request looks at a bounded part of the table, so a page may be short although more follow."""
    _demand_view(request, "job")
    if "\0" in type:
        raise Refusal(422, "invalid", "type: Text may not contain NUL")
    try:
        level = parse_priority(priority) if priority else None
    except BadValue as problem:
        raise Refusal(422, "invalid", f"priority: {problem}") from None
    chosen = window.Chosen(
        status=status or "", state=state or "", type=type, workflow=workflow, ceiling=cursor
    )
    seen = window.find_window(chosen)
    matching = seen.applied_to(Job.objects.defer("payload", "result"))
    matching = getattr(matching, state)() if state else matching
    for field, value in (("status", status), ("type", type), ("workflow", workflow), ("pk__lt", cursor)):
        matching = matching.filter(**{field: value}) if value else matching
    matching = matching if level is None else matching.filter(priority=level)
    rows = list(matching.order_by("-pk")[: limit + 1])
    following = rows[limit - 1].pk if len(rows) > limit else None if seen.is_whole else seen.floor
    return schemas.JobPage(jobs=[schemas.JobRow.model_validate(row) for row in rows[:limit]], next=following)


@router.get(
    "jobs/{job_id}", response={200: schemas.JobDetail, **refusals(*_STAFF, 404)}, summary="Show a job"
)
def job(request: StaffRequest, job_id: Id) -> schemas.JobDetail:
    """With its payload and result."""
    _demand_view(request, "job")
    return schemas.JobDetail.model_validate(_find(job_id))


@router.post(
    "jobs/{job_id}/retry",
    response={200: schemas.Changed, **refusals(*_STAFF, 404, 409)},
    summary="Retry a job",
)
def retry(request: StaffRequest, job_id: Id) -> schemas.Changed:
    """A failed or cancelled job starts over with all its attempts ahead; what its failure had cancelled comes back."""
    return _act(request, job_id, "retry")


@router.post(
    "jobs/{job_id}/cancel",
    response={200: schemas.Changed, **refusals(*_STAFF, 404, 409)},
    summary="Cancel a job",
)
def cancel(request: StaffRequest, job_id: Id) -> schemas.Changed:
    """A running handler is told to stop. Jobs that depend on it are cancelled, too."""
    return _act(request, job_id, "cancel")


def _act(request: StaffRequest, job_id: str, name: str) -> schemas.Changed:
    verb = BY_NAME[name]
    _demand(request, f"jobs.{verb.permission}_job")
    subject = _find(job_id)
    order = Order(request.user.get_username())
    outcome = bulk.act(verb, [subject.pk], order) if verb.is_possible(subject) else bulk.Outcome()
    if not outcome.changed:
        reason = outcome.refusals.get(subject.pk, f"The job is {subject.status}; it cannot be {verb.done}.")
        raise Refusal(409, "not_possible", reason)
    log_rows(request, Job, outcome.changed, verb.past_tense(order), {subject.pk: str(subject)})
    return schemas.Changed.of(outcome.changed, _find(job_id))


def _find(job_id: str) -> Job:
    found: Job | None = Job.objects.filter(pk=job_id).first() if is_ulid(job_id) else None
    if found is None:
        raise NOT_FOUND
    return found


@router.get("queue", response={200: schemas.Queue, **refusals(*_STAFF)}, summary="The queue as a whole")
def queue(request: StaffRequest) -> schemas.Queue:
    """Counts go up to a bound and are estimates beyond it."""
    _demand_view(request, "job")
    depth = read_depth()
    states = JobTypeState.objects.in_bulk()
    kinds = {kind.name: kind for kind in registry.all_types()}
    pending = read_types(list(kinds))
    number = schemas.Number.of
    return schemas.Queue(
        pending=number(depth.pending),
        scheduled=number(depth.scheduled),
        blocked=number(depth.blocked),
        processing=number(depth.running),
        failed=number(depth.failed),
        workers=len(fleet.living()),
        types=[
            schemas.TypeOfQueue(
                name=name,
                pending=number(pending[name].pending),
                oldest=pending[name].oldest,
                paused=name in states and states[name].paused,
                concurrency=_limit(kind, states.get(name)),
                remote=bool(kind.remote),
            )
            for name, kind in kinds.items()
        ],
        breakers=[schemas.BreakerOfQueue.model_validate(view) for view in read_breakers()],
    )


def _limit(kind: registry.JobType, state: JobTypeState | None) -> int | None:
    return kind.concurrency if state is None or state.concurrency is None else state.concurrency


# -- workers -----------------------------------------------------------------------------------------------------------


@router.get("workers", response={200: schemas.WorkerPage, **refusals(*_STAFF, 422)}, summary="List workers")
def workers(request: StaffRequest, cursor: Cursor = "", limit: Limit = 50) -> schemas.WorkerPage:
    _demand_view(request, "worker")
    """With what each of them runs."""
    found = Worker.objects.judged().filter(pk__gt=cursor).order_by("pk")
    rows = list(found.prefetch_related(_RUNNING)[: limit + 1])
    return schemas.WorkerPage(
        workers=[schemas.WorkerRow.of(row) for row in rows[:limit]],
        next=rows[limit - 1].pk if len(rows) > limit else None,
    )


@router.post(
    "workers/{worker_id}/disable",
    response={200: schemas.WorkerChanged, **refusals(*_STAFF, 404)},
    summary="Disable a worker",
)
def disable(request: StaffRequest, worker_id: Id) -> schemas.WorkerChanged:
    """It claims nothing until somebody enables it."""
    return _act_on_worker(request, worker_id, "disable")


@router.post(
    "workers/{worker_id}/enable",
    response={200: schemas.WorkerChanged, **refusals(*_STAFF, 404)},
    summary="Enable a worker",
)
def enable(request: StaffRequest, worker_id: Id) -> schemas.WorkerChanged:
    """It may claim jobs again."""
    return _act_on_worker(request, worker_id, "enable")


@router.post(
    "workers/{worker_id}/revoke",
    response={200: schemas.Revoked, **refusals(*_STAFF, 404)},
    summary="Revoke all keys of a worker",
)
def revoke(request: StaffRequest, worker_id: Id) -> schemas.Revoked:
    """From this moment on none of its keys opens anything."""
    _demand(request, "jobs.change_workerkey")
    worker = _find_worker(worker_id)
    keys = worker_keys.revoke_all(worker, actor=request.user.get_username())
    for key in keys:
        log_rows(request, Worker, [worker.pk], f"revoked key {key}", {worker.pk: worker.name})
    live.hint_on_commit()
    return schemas.Revoked(revoked=[key.prefix for key in keys], worker=_row(worker.pk))


@router.post(
    "workers/{worker_id}/forget",
    response={200: schemas.Forgotten, **refusals(*_STAFF, 404, 409)},
    summary="Forget a worker",
)
def forget(request: StaffRequest, worker_id: Id) -> schemas.Forgotten:
    """Deletes the record of a worker that is offline or revoked, and its keys. Attempts and jobs keep its name.

    409 `worker_online`: it is neither. 409 `worker_holds_jobs`: their leases have to run out first.
    """
    verb = WORKER_VERBS["forget"]
    _demand(request, f"jobs.{verb.permission}_worker")
    worker = _find_worker(worker_id)
    if not verb.do([worker.pk]):
        if _row(worker.pk).running:
            raise Refusal(409, "worker_holds_jobs", "It holds jobs; forget it when their leases are over.")
        raise Refusal(409, "worker_online", "It is online; only a worker that is offline can be forgotten.")
    log_rows(request, Worker, [worker.pk], verb.done, {worker.pk: worker.name})
    live.hint_on_commit()
    return schemas.Forgotten(id=worker.pk, name=worker.name)


def _act_on_worker(request: StaffRequest, worker_id: str, name: str) -> schemas.WorkerChanged:
    _demand(request, "jobs.change_worker")
    worker, verb = _find_worker(worker_id), WORKER_VERBS[name]
    changed = verb.is_possible(worker) and bool(verb.do([worker.pk]))
    if changed:
        log_rows(request, Worker, [worker.pk], verb.done, {worker.pk: worker.name})
        live.hint_on_commit()
    return schemas.WorkerChanged(changed=changed, worker=_row(worker.pk))


def _find_worker(worker_id: str) -> Worker:
    found: Worker | None = (
        Worker.objects.judged().filter(pk=worker_id).first() if is_ulid(worker_id) else None
    )
    if found is None:
        raise NOT_FOUND
    return found


_RUNNING = Prefetch("running_jobs", Job.objects.leased().only(*schemas.RUNNING).order_by("claimed_at", "pk"))


def _row(worker_id: str) -> schemas.WorkerRow:
    found = Worker.objects.judged().prefetch_related(_RUNNING).filter(pk=worker_id).first()
    if found is None:
        raise NOT_FOUND
    return schemas.WorkerRow.of(found)


# -- permissions -------------------------------------------------------------------------------------------------------


def _demand(request: StaffRequest, permission: str) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied(f"This takes the permission {permission}.")


def _demand_view(request: StaffRequest, model: str) -> None:
    if not may_see(request.user, model):
        raise PermissionDenied(f"This takes the permission jobs.view_{model}.")
