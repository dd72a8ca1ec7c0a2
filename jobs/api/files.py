"""What a remote worker needs of the site to run a job, and the files that it sends. All of it under the live lease."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponseBase
from ninja import Header, Path, Router

from jobs import conf, remote_files, remote_jobs, staging
from jobs.api import schemas
from jobs.api.authentication import WORKER
from jobs.api.bodies import json_body
from jobs.api.errors import NOT_FOUND, Refusal, refusals
from jobs.api.worker import KEY, LEASE, SMALL, JobId, WorkerRequest, lease_of, lost
from jobs.archives import TooLarge
from jobs.exceptions import LeaseLost
from jobs.file_responses import respond
from jobs.remote_work import FileRefused, RemoteJob, SourceFile

router = Router(tags=["worker"], auth=WORKER)

_FILE = (411, 413, 422, 507)
_LENGTH = re.compile(r"[0-9]{1,18}")
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_GIVES_BYTES: dict[str, Any] = {
    "responses": {status: {"content": {"application/octet-stream": _BYTES}} for status in (200, 206)}
}

Token = Annotated[
    int,
    Header(
        alias="X-Lease-Token", ge=1, le=schemas.BIGGEST, description="the lease token, as the claim gave it"
    ),
]
Sha256 = Annotated[
    str,
    Header(alias="X-Content-SHA256", pattern=r"^[0-9a-f]{64}$", description="of the body, in hexadecimal"),
]
Name = Annotated[str, Path(description="as the type of the job has it; it may contain slashes")]


def _body(content_type: str) -> dict[str, Any]:
    """For the document: a body that is read as it arrives, so ninja must not know of it."""
    return {"requestBody": {"required": True, "content": {content_type: _BYTES}}}


@router.get(
    "jobs/{job_id}/order",
    response={200: schemas.JobOrder, **refusals(*KEY, *LEASE, 422)},
    summary="Get what is needed to run a job",
)
def order(request: WorkerRequest, job_id: JobId, token: Token) -> schemas.JobOrder:
    """What the job's type adds to the payload for workers without a database.

    409: the lease is over; also when the site has just decided that this worker cannot run the job.
    """
    with _held(request, job_id, token) as job:
        return schemas.JobOrder.of(remote_jobs.give_order(job))


@router.get(
    "jobs/{job_id}/source",
    response={(200, 206, 304): None, **refusals(*KEY, *LEASE, 416, 422)},
    openapi_extra=_GIVES_BYTES,
    summary="Fetch the source of a job",
)
def source(request: WorkerRequest, job_id: JobId, token: Token) -> HttpResponseBase:
    """The file that the job reads, or a part of it (Range, If-Range). Its ETag is its SHA-256. 404 if it reads none."""
    with _held(request, job_id, token) as job:
        return _give(request, remote_jobs.give_source(job))


@router.get(
    "jobs/{job_id}/files/{path:name}",
    response={(200, 206, 304): None, **refusals(*KEY, *LEASE, 416, 422)},
    openapi_extra=_GIVES_BYTES,
    summary="Fetch a file that a job reads",
)
def fetch_file(request: WorkerRequest, job_id: JobId, name: Name, token: Token) -> HttpResponseBase:
    """A file besides the source that the job's type lets it read, as the source is given. 404 for any other name."""
    with _held(request, job_id, token) as job:
        return _give(request, remote_jobs.give_input(job, staging.check_name(name)))


def _give(request: HttpRequest, found: SourceFile | None) -> HttpResponseBase:
    if found is None:
        raise NOT_FOUND
    try:
        file = found.path.open("rb")
    except OSError:
        raise Refusal(404, "no_source", f"{found.name} is gone.") from None
    answer = respond(
        request,
        file,
        size=found.bytes,
        tag=f'"{found.sha256}"',
        changed=found.path.stat().st_mtime,
        content_type="application/octet-stream",
    )
    if answer.status_code == 416:
        whole = {"Content-Range": answer["Content-Range"]}
        raise Refusal(416, "bad_range", f"{found.name} has {found.bytes:,} bytes.", headers=whole)
    return answer


@router.post(
    "jobs/{job_id}/proceed",
    response={200: schemas.Proceeded, **refusals(*KEY, *LEASE, 413, 415, 422)},
    summary="Let the site do its part",
)
@json_body(SMALL)
def proceed(request: WorkerRequest, job_id: JobId, body: schemas.Report) -> schemas.Proceeded:
    """A few seconds of what only the site can do for this job, such as checking all that is to be published.

    Asked again until it is done; a job whose type has no such part is done at once.
    """
    with _held(request, job_id, body.token) as job:
        share = remote_jobs.proceed(job)
        return schemas.Proceeded(done=share >= 1, percent=min(100.0, max(0.0, 100 * share)))


@router.put(
    "jobs/{job_id}/files/{path:name}",
    response={200: schemas.StoredFile, **refusals(*KEY, *LEASE, *_FILE)},
    openapi_extra=_body("application/octet-stream"),
    summary="Send a file of a job",
)
def send_file(
    request: WorkerRequest, job_id: JobId, name: Name, token: Token, sha256: Sha256
) -> schemas.StoredFile:
    """One file, whole, with its Content-Length and checksum. The same once more is a success again."""
    with _held(request, job_id, token) as job:
        size = _content_length(request)
        return schemas.StoredFile.of(remote_files.receive(job, name, request, size=size, sha256=sha256))


@router.post(
    "jobs/{job_id}/archive",
    response={200: schemas.StoredFiles, **refusals(*KEY, *LEASE, *_FILE)},
    openapi_extra=_body("application/gzip"),
    summary="Send all files of a job",
)
def send_archive(request: WorkerRequest, job_id: JobId, token: Token, sha256: Sha256) -> schemas.StoredFiles:
    """A .tar.gz of regular files under the names that the job may write: all of them count, or none does."""
    with _held(request, job_id, token) as job:
        size, limit = _content_length(request), conf.current().archive_max_bytes
        if size > limit:
            raise TooLarge(f"The archive may have {limit:,} bytes.")
        stored = remote_files.receive_archive(job, request, size=size, sha256=sha256)
        return schemas.StoredFiles(files=[schemas.StoredFile.of(file) for file in stored])


@contextmanager
def _held(request: WorkerRequest, job_id: str, token: int) -> Iterator[RemoteJob]:
    """The job under its live lease; and what is refused about its files, as HTTP says it."""
    lease = lease_of(request, job_id, token)
    try:
        yield remote_jobs.find(request.auth, lease)
    except LeaseLost:
        raise lost(request, lease) from None
    except TooLarge as refusal:
        raise Refusal(413, "too_large", str(refusal)) from None
    except FileRefused as refusal:
        raise Refusal(422, "refused", str(refusal)) from None
    except remote_files.NoRoom:
        raise Refusal(
            507, "no_room", "The disk is full; nothing of it was kept.", headers={"Retry-After": "60"}
        ) from None


def _content_length(request: HttpRequest) -> int:
    given = request.META.get("CONTENT_LENGTH") or ""
    if not given:
        raise Refusal(411, "length_required", "Send the Content-Length.")
    if not _LENGTH.fullmatch(given):
        raise Refusal(400, "bad_length", "Content-Length is not a number of bytes.")
    return int(given)
