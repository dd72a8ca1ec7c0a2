"""The contract of the worker API: what a worker sends and what it gets. Unknown fields and other types are refused.

What is sent may grow fields, never lose one or change its meaning.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from jobs import payloads, remote
from jobs.exceptions import InvalidPayload
from jobs.lifecycle import Lease
from jobs.lifecycle.leases import FailureReport
from jobs.remote import Announcement, Orders
from jobs.remote_claims import HeldJob
from jobs.remote_files import Stored
from jobs.remote_jobs import Order

LARGEST_NOTE = 10 * 1024
"""Bytes of capabilities, and of metadata, as JSON."""
MOST_PLACES = 256
MOST_RUNNING = 1000
LONGEST_RETRY = 366 * 86400.0
BIGGEST = 2**63 - 1


def _plain(text: str) -> str:
    """Text that every database stores as it is."""
    if payloads.storable(text) != text:
        raise ValueError("Text may contain neither NUL nor lone surrogates")
    return text


def _small(value: Any) -> Any:
    try:
        payloads.encode(value, what="value")
    except InvalidPayload as problem:
        raise ValueError(str(problem)) from None
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    if size > LARGEST_NOTE:
        raise ValueError(f"It has {size:,} bytes as JSON; the limit is {LARGEST_NOTE:,}")
    return value


Text = Annotated[str, AfterValidator(_plain)]
Token = Annotated[int, Field(ge=1, le=BIGGEST, description="the lease token, as the claim gave it")]
TypeName = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_plain)]
Types = Annotated[list[TypeName], Field(max_length=500)]
Capability = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_plain)]
_CAPABILITIES = TypeAdapter(list[Capability])


def _named(given: list[str] | dict[str, Any]) -> list[str]:
    """An object as the list that it stands for: {"gpu": true, "codecs": ["h264"]} is ["gpu", "codecs:h264"]."""
    if isinstance(given, list):
        return given
    return _CAPABILITIES.validate_python([name for pair in given.items() for name in _names_of(*pair)])


def _names_of(name: str, value: Any) -> list[str]:
    if isinstance(value, bool) or value is None:
        return [name] if value else []
    if isinstance(value, dict):
        return [f"{name}:{inner}" for pair in value.items() for inner in _names_of(*pair)]
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, list | dict) for one in values):
        raise ValueError(f"{name[:60]}: A list may contain text and numbers only")
    return [f"{name}:{one}" for one in values]


Capabilities = Annotated[
    list[Capability] | dict[str, Any],
    Field(
        description='a list such as ["gpu"], or an object: {"gpu": true, "codecs": ["h264"]} means "gpu" and '
        '"codecs:h264"; at most 10 KiB as JSON'
    ),
    AfterValidator(_small),
    AfterValidator(_named),
]
Metadata = Annotated[
    dict[str, Any], Field(description="whatever helps people; at most 10 KiB as JSON"), AfterValidator(_small)
]
Places = Annotated[int, Field(ge=1, le=MOST_PLACES)]
Version = Annotated[str, Field(max_length=50), AfterValidator(_plain)]


class Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


# -- the worker itself -------------------------------------------------------------------------------------------------


class _Telling(Sent):
    types: Types | None = Field(
        None,
        description="the job types it handles, of which those that the site keeps for local workers are left out; "
        "who registers or starts without naming any takes all that are offered",
    )
    capabilities: Capabilities | None = None
    concurrency: Places | None = Field(None, description="how many jobs it runs at once")
    version: Version | None = Field(None, description="of the worker's software")
    metadata: Metadata | None = None

    def announcement(self) -> Announcement:
        has = None if self.capabilities is None else list(self.capabilities)
        return Announcement(self.types, has, self.concurrency, self.version, self.metadata)


class Registration(_Telling):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:@+-]{0,99}$")] = Field(
        default_factory=remote.random_name,
        validation_alias=AliasChoices("name", "worker_name"),
        description="also accepted as `worker_name`; without one the site makes one up",
    )
    worker_type: Literal["remote"] = Field("remote", description="no other kind registers here")


class Registered(BaseModel):
    worker_id: str
    name: str
    api_key: str = Field(description="shown this once; the server keeps only its digest")
    types: list[str] = Field(description="the job types it may claim")


class LeaseGiven(Sent):
    job_id: Annotated[str, Field(min_length=1, max_length=26), AfterValidator(_plain)]
    token: Token

    def of(self, worker_id: str) -> Lease:
        return Lease(self.job_id, self.token, worker_id)


class Heartbeat(_Telling):
    status: Literal["starting", "active", "idle", "busy", "stopped"] = Field(
        "active",
        description="starting: a new process, whatever the former one held is lost; stopped: goodbye; of the others, "
        "busy is recorded for a worker that holds a job, whatever it says",
    )
    running: Annotated[list[LeaseGiven], Field(max_length=MOST_RUNNING)] = Field(
        default_factory=list, description="the leases of the jobs it runs; these are renewed"
    )


ALIVE = Heartbeat.model_validate({})
"""What an empty body says."""


class HeldLease(BaseModel):
    job_id: str
    token: int
    expires_at: datetime


class JobToStop(BaseModel):
    job_id: str
    token: int
    reason: Literal["cancelled", "lost", "finished", "disabled", "outdated"]


class HeartbeatAnswer(BaseModel):
    worker_id: str
    name: str
    state: Literal["active", "idle", "busy", "offline", "disabled"]
    order: Literal["", "draining", "disabled", "outdated"] = Field(
        description="draining: finish and stop; disabled, outdated: stop what runs, claim nothing"
    )
    types: list[str] = Field(description="the job types it may claim")
    current_job_id: str | None = Field(description="the job that it has held longest; null: it holds none")
    leases: list[HeldLease] = Field(description="all that it holds, in the order of their claims")
    stop: list[JobToStop] = Field(description="of those it runs, the ones to stop now")
    heartbeat_seconds: float = Field(description="how soon the next heartbeat is expected")
    lease_seconds: float = Field(description="how long a lease lasts after its renewal")
    min_version: str = Field(description="the oldest version that gets jobs; empty: any")

    @classmethod
    def of(cls, orders: Orders, *, heartbeat: float, lease: float, min_version: str) -> HeartbeatAnswer:
        return cls.model_validate(
            {
                "worker_id": orders.worker.pk,
                "name": orders.worker.name,
                "state": orders.worker.state,
                "order": orders.order,
                "types": orders.worker.job_types,
                "current_job_id": next((lease.job_id for lease in orders.leases), None),
                "leases": [
                    {"job_id": lease.job_id, "token": lease.token, "expires_at": expires_at}
                    for lease, expires_at in orders.leases.items()
                ],
                "stop": [
                    {"job_id": stop.lease.job_id, "token": stop.lease.token, "reason": stop.reason}
                    for stop in orders.stop
                ],
                "heartbeat_seconds": heartbeat,
                "lease_seconds": lease,
                "min_version": min_version,
            }
        )


# -- its jobs ----------------------------------------------------------------------------------------------------------


class Claim(Sent):
    slots: Places = Field(1, description="how many jobs it could start now")
    types: Types | None = Field(None, description="only these; empty: all that it handles")


ONE_JOB = Claim.model_validate({})
"""What an empty body asks for."""


class ClaimedJob(BaseModel):
    job_id: str
    token: int = Field(description="goes with every report about this job")
    type: str
    payload: dict[str, Any]
    attempt: int = Field(description="1 for the first run")
    max_attempts: int
    priority: int
    correlation_id: str
    submitter: str
    workflow_id: str | None
    expires_at: datetime

    @classmethod
    def of(cls, job: HeldJob) -> ClaimedJob:
        told = {name: getattr(job, name) for name in cls.model_fields if name not in ("job_id", "token")}
        return cls(job_id=job.lease.job_id, token=job.lease.token, **told)


class ClaimAnswer(BaseModel):
    jobs: list[ClaimedJob]
    lease_seconds: float = Field(description="how long each lease lasts unless it is renewed")


class Report(Sent):
    """About the job that the path names."""

    token: Token


class ReportOfJob(Sent):
    """About the job that the body names."""

    job_id: Annotated[str, Field(min_length=1, max_length=26), AfterValidator(_plain)]
    token: Token | None = Field(
        None,
        description="the lease token, as the claim gave it; may be left out if this worker has claimed the job once",
    )


class _Progress(Sent):
    percent: Annotated[float, Field(ge=0, le=100)] = Field(
        validation_alias=AliasChoices("percent", "progress_percent"),
        description="also accepted as `progress_percent`",
    )
    step: Annotated[str, Field(max_length=1000)] = Field(
        "",
        validation_alias=AliasChoices("step", "current_step"),
        description="the first 100 characters are kept; also accepted as `current_step`",
    )


class Progress(_Progress, Report):
    pass


class ProgressOfJob(_Progress, ReportOfJob):
    pass


class _Completion(Sent):
    result: Any = Field(None, description="any JSON, up to the site's PAYLOAD_MAX_BYTES")


class Completion(_Completion, Report):
    pass


class CompletionOfJob(_Completion, ReportOfJob):
    pass


class _Failure(Sent):
    type: Annotated[str, Field(max_length=200)] = Field("Error", description="of the exception")
    message: Annotated[str, Field(min_length=1, max_length=100_000)] = Field(
        validation_alias=AliasChoices("message", "error_message"),
        description="also accepted as `error_message`",
    )
    traceback: Annotated[str, Field(max_length=100_000)] = ""
    permanent: bool = Field(False, description="trying again cannot help")
    retry_in_seconds: Annotated[float, Field(ge=0, le=LONGEST_RETRY)] | None = Field(
        None, description="in place of the usual backoff"
    )

    counted: bool = Field(
        True, description="false: the attempt is given back; this was not the moment, or not the worker"
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.permanent and not self.counted:
            raise ValueError("An attempt that does not count leads to another: it cannot be permanent")
        return self

    def report(self) -> FailureReport:
        wait = None if self.retry_in_seconds is None else timedelta(seconds=self.retry_in_seconds)
        return FailureReport(
            self.type, self.message, self.traceback, self.permanent, wait, counted=self.counted
        )


class Failure(_Failure, Report):
    pass


class FailureOfJob(_Failure, ReportOfJob):
    pass


class Release(Report):
    reason: Annotated[str, Field(max_length=1000)] = ""


class JobState(BaseModel):
    job_id: str
    status: Literal["waiting", "pending", "processing", "completed", "failed", "cancelled"]
    lease_seconds: float | None = Field(
        default=None, description="while it is processing: how long the lease lasts"
    )


class SourceOfJob(BaseModel):
    name: str
    bytes: int
    sha256: str = Field(description="also the ETag of the source")


class JobOrder(BaseModel):
    done: bool = Field(description="the result exists already: complete the job, there is nothing to do")
    order: dict[str, Any] = Field(
        description="what the type adds to the payload, for a worker without database"
    )
    source: SourceOfJob | None = Field(description="the file that the job reads, if it reads one")

    @classmethod
    def of(cls, order: Order) -> JobOrder:
        source = order.source
        return cls(
            done=order.done,
            order=order.order,
            source=SourceOfJob(name=source.name, bytes=source.bytes, sha256=source.sha256)
            if source
            else None,
        )


class Proceeded(BaseModel):
    done: bool
    percent: float = Field(description="of the site's part")


class Emptiness(BaseModel):
    empty: bool = Field(description="nothing that this worker could run is pending, due or running anywhere")
    due: bool = Field(description="the time of such a job has come; it becomes pending at the next tick")


class StoredFile(BaseModel):
    name: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, stored: Stored) -> StoredFile:
        return cls(name=stored.name, bytes=stored.bytes, sha256=stored.sha256)


class StoredFiles(BaseModel):
    files: list[StoredFile]


class Health(BaseModel):
    status: Literal["ok", "degraded", "failing"]
    reasons: list[str]
    database: bool
    active_workers: int | None
    pending_jobs: int | None = Field(description="counted up to 10,000")
    redis: bool | None = Field(description="null: the queue works without it")
