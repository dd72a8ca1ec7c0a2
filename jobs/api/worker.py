"""The worker API: what a worker on another machine says and asks. Every report about a job carries the lease token."""

from __future__ import annotations

import re
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Header, Path, Router, Status

from jobs import conf, health, lifecycle, orchestrator, overview, remote, remote_claims, remote_jobs
from jobs.api import schemas
from jobs.api.authentication import WORKER, AdminSecret
from jobs.api.bodies import KIB, json_body
from jobs.api.errors import NOT_FOUND, Refusal, refusals
from jobs.exceptions import InvalidPayload, LeaseLost
from jobs.lifecycle import FailureReport, Lease, ProgressReport
from jobs.models import Worker
from jobs.remote_work import FileRefused

router = Router(tags=["worker"])

SMALL = 16 * KIB
TELLING = 128 * KIB
FAILURE = 1024 * KIB
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_BODY = (413, 415, 422)
KEY = (400, 401, 429, 503)
LEASE = (404, 409)

JobId = Annotated[str, Path(description="as the claim gave it")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[A-Za-z0-9_-]{8,64}$",
        description="chosen anew for each claim, sent again when its answer got lost: then the leases are the same; "
        "without it, leases whose answer got lost run out unused",
    ),
]


class WorkerRequest(HttpRequest):
    auth: Worker


@router.post(
    "register",
    auth=AdminSecret(),
    response={201: schemas.Registered, **refusals(*KEY, 409, *_BODY)},
    summary="Register a worker",
)
@json_body(TELLING)
def register(request: HttpRequest, body: schemas.Registration) -> Status[schemas.Registered]:
    """Makes a worker and its key, which is shown this once. 503 while the site has no admin secret.

    The name of a remote worker that is offline is taken over: the worker keeps its id and its history, its former keys
    are revoked, and whatever it still held goes back to the queue. 409: a worker of this name is online, or local.
    """
    worker, _, key = remote.register(body.name, body.announcement())
    answer = schemas.Registered(worker_id=worker.pk, name=worker.name, api_key=key, types=worker.job_types)
    return Status(201, answer)


@router.post(
    "heartbeat",
    auth=WORKER,
    response={200: schemas.HeartbeatAnswer, **refusals(*KEY, *_BODY)},
    summary="Send a heartbeat",
)
@json_body(TELLING)
def heartbeat(request: WorkerRequest, body: schemas.Heartbeat = schemas.ALIVE) -> schemas.HeartbeatAnswer:
    """Says that the worker lives, renews the leases of what it runs, and tells it what to stop.

    The body may be empty: the worker lives, and has nothing to tell.
    """
    worker, settings = request.auth, conf.current()
    orders = remote.heartbeat(
        worker,
        status=body.status,
        announcement=body.announcement(),
        running=[lease.of(worker.pk) for lease in body.running],
    )
    return schemas.HeartbeatAnswer.of(
        orders,
        heartbeat=settings.heartbeat_interval.total_seconds(),
        lease=settings.claim_duration.total_seconds(),
        min_version=settings.min_worker_version,
    )


@router.post(
    "claim",
    auth=WORKER,
    response={200: schemas.ClaimAnswer, **refusals(*KEY, 403, 409, *_BODY)},
    summary="Claim jobs",
)
@json_body(SMALL)
def claim(
    request: WorkerRequest, body: schemas.Claim = schemas.ONE_JOB, idempotency_key: IdempotencyKey = None
) -> schemas.ClaimAnswer:
    """Jobs for the free places of this worker, each under a lease; an empty list means: nothing it may run now.

    The body may be empty: one job of any type that it handles. 403: the worker is disabled or outdated. 409: it counts
    as offline and must send a heartbeat first.
    """
    jobs = remote_claims.claim(request.auth, key=idempotency_key, slots=body.slots, types=body.types)
    return schemas.ClaimAnswer(
        jobs=[schemas.ClaimedJob.of(job) for job in jobs], lease_seconds=_lease_seconds()
    )


@router.get(
    "empty",
    auth=WORKER,
    response={200: schemas.Emptiness, **refusals(*KEY)},
    summary="Is there nothing left to do",
)
def show_emptiness(request: WorkerRequest) -> schemas.Emptiness:
    """For a worker that is to end by itself. `empty`: of the types that it may claim no job is pending, due or
    running. `due`: the time of one has come, and it becomes pending at the next tick."""
    types = remote.offered(request.auth.job_types)
    return schemas.Emptiness(empty=overview.is_empty(types), due=orchestrator.has_due(types))


@router.post(
    "jobs/{job_id}/progress",
    auth=WORKER,
    response={200: schemas.JobState, **refusals(*KEY, *LEASE, *_BODY)},
    summary="Report progress",
)
@json_body(SMALL)
def progress(request: WorkerRequest, job_id: JobId, body: schemas.Progress) -> schemas.JobState:
    """Stores how far the job is and renews its lease."""
    return _progress(request, lease_of(request, job_id, body.token), body.percent, body.step)


@router.post(
    "progress",
    auth=WORKER,
    response={200: schemas.JobState, **refusals(*KEY, *LEASE, *_BODY)},
    summary="Report progress of a job that the body names",
)
@json_body(SMALL)
def progress_of_job(request: WorkerRequest, body: schemas.ProgressOfJob) -> schemas.JobState:
    """As `jobs/{job_id}/progress`. 422 `token_required`: this worker has claimed the job more than once."""
    return _progress(request, lease_of(request, body.job_id, body.token), body.percent, body.step)


def _progress(request: WorkerRequest, lease: Lease, percent: float, step: str) -> schemas.JobState:
    if lifecycle.report_progress([ProgressReport(lease, percent, step)]):
        raise lost(request, lease)
    return schemas.JobState(job_id=lease.job_id, status="processing", lease_seconds=_lease_seconds())


def _result_limit() -> int:
    return conf.current().payload_max_bytes + 4 * KIB


@router.post(
    "jobs/{job_id}/complete",
    auth=WORKER,
    response={200: schemas.JobState, **refusals(*KEY, *LEASE, *_BODY)},
    summary="Complete a job",
)
@json_body(_result_limit)
def complete(request: WorkerRequest, job_id: JobId, body: schemas.Completion) -> schemas.JobState:
    """Ends the job with its result. With the same token once more it is a success again.

    409 `unfinished`: files that the job makes are missing; the lease goes on.
    """
    return _complete(request, lease_of(request, job_id, body.token), body.result)


@router.post(
    "complete",
    auth=WORKER,
    response={200: schemas.JobState, **refusals(*KEY, *LEASE, *_BODY)},
    summary="Complete a job that the body names",
)
@json_body(_result_limit)
def complete_job(request: WorkerRequest, body: schemas.CompletionOfJob) -> schemas.JobState:
    """As `jobs/{job_id}/complete`. 422 `token_required`: this worker has claimed the job more than once."""
    return _complete(request, lease_of(request, body.job_id, body.token), body.result)


def _complete(request: WorkerRequest, lease: Lease, result: Any) -> schemas.JobState:
    try:
        remote_jobs.complete(request.auth, lease, result)
    except LeaseLost:
        raise lost(request, lease) from None
    except FileRefused as missing:
        raise Refusal(409, "unfinished", str(missing)) from None
    except InvalidPayload as problem:
        raise Refusal(422, "invalid", f"result: {problem}") from None
    return schemas.JobState(job_id=lease.job_id, status="completed")


@router.post(
    "jobs/{job_id}/fail",
    auth=WORKER,
    response={200: schemas.JobState, **refusals(*KEY, *LEASE, *_BODY)},
    summary="Report a failure",
)
@json_body(FAILURE)
def fail(request: WorkerRequest, job_id: JobId, body: schemas.Failure) -> schemas.JobState:
    """Ends the attempt: the job waits for the next one, or has failed for good."""
    return _fail(request, lease_of(request, job_id, body.token), body.report())


@router.post(
    "fail",
    auth=WORKER,
    response={200: schemas.JobState, **refusals(*KEY, *LEASE, *_BODY)},
    summary="Report the failure of a job that the body names",
)
@json_body(FAILURE)
def fail_job(request: WorkerRequest, body: schemas.FailureOfJob) -> schemas.JobState:
    """As `jobs/{job_id}/fail`. 422 `token_required`: this worker has claimed the job more than once."""
    return _fail(request, lease_of(request, body.job_id, body.token), body.report())


def _fail(request: WorkerRequest, lease: Lease, failure: FailureReport) -> schemas.JobState:
    try:
        status = remote_jobs.fail(request.auth, lease, failure)
    except LeaseLost:
        raise lost(request, lease) from None
    return schemas.JobState.model_validate({"job_id": lease.job_id, "status": status.value})


@router.post(
    "jobs/{job_id}/release",
    auth=WORKER,
    response={200: schemas.JobState, **refusals(*KEY, *LEASE, *_BODY)},
    summary="Give a job back",
)
@json_body(SMALL)
def release(request: WorkerRequest, job_id: JobId, body: schemas.Release) -> schemas.JobState:
    """Gives the job back to the queue; the attempt does not count."""
    lease = lease_of(request, job_id, body.token)
    if not remote_jobs.release(lease, reason=body.reason):
        raise lost(request, lease)
    return schemas.JobState(job_id=job_id, status="pending")


@router.get(
    "health",
    auth=None,
    response={200: schemas.Health, 503: schemas.Health},
    summary="Is the queue alive",
)
def show_health(request: HttpRequest) -> Status[schemas.Health]:
    """503 when the database does not answer. "degraded" when jobs wait and nobody runs them."""
    found = health.examine()
    return Status(found.http_status, schemas.Health.model_validate(found.as_dict()))


def lease_of(request: WorkerRequest, job_id: str, token: int | None) -> Lease:
    """The lease that this worker speaks of. Without a token: of its only claim of this job."""
    if not _ULID.fullmatch(job_id):
        raise NOT_FOUND
    if token is None:
        tokens = remote_claims.tokens_of(request.auth, job_id)
        if not tokens:
            raise NOT_FOUND
        if len(tokens) > 1:
            raise Refusal(
                422,
                "token_required",
                "token: This worker has claimed the job more than once; send the token of the claim that is meant.",
            )
        (token,) = tokens
    return Lease(job_id, token, request.auth.pk)


def lost(request: WorkerRequest, lease: Lease) -> Refusal:
    """409 for a worker that has held this job, 404 for any other: whether the job exists is none of its business."""
    if not remote_claims.tokens_of(request.auth, lease.job_id):
        return NOT_FOUND
    return Refusal(409, "lease_lost", str(LeaseLost(lease.job_id)))


def _lease_seconds() -> float:
    return conf.current().claim_duration.total_seconds()
