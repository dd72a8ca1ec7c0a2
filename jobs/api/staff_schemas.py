"""The contract of the admin API of the queue: jobs, workers and the queue as a whole, as staff see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from jobs.dashboard.depth import Count
from jobs.models import Job, Worker

JobStatus = Literal["waiting", "pending", "processing", "completed", "failed", "cancelled"]
DerivedState = Literal["unclaimed", "claimed", "expired", "retrying", "completed", "failed"]


class Shown(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class JobRow(Shown):
    id: str
    type: str
    status: JobStatus
    priority: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    claimed_at: datetime | None
    claim_expires_at: datetime | None
    completed_at: datetime | None
    cancelled_at: datetime | None
    attempt_number: int
    max_attempts: int
    last_error: str
    current_step: str
    progress_percent: float
    worker_id: str | None
    processed_by_worker_name: str
    correlation_id: str
    unique_key: str | None
    submitter: str
    workflow_id: str | None
    parent_id: str | None


class JobDetail(JobRow):
    payload: Any
    result: Any


class JobPage(BaseModel):
    jobs: list[JobRow] = Field(description="newest first")
    next: str | None = Field(
        description="the cursor of the next page, which may be there although this one is short; null: the end"
    )


class Changed(BaseModel):
    changed: list[str] = Field(description="all the jobs that changed, those that depend on it included")
    job: JobRow

    @classmethod
    def of(cls, changed: list[str], job: Job) -> Changed:
        return cls(changed=changed, job=JobRow.model_validate(job))


class Number(BaseModel):
    value: int
    exact: bool = Field(description="false: an estimate, or the bound up to which was counted")

    @classmethod
    def of(cls, count: Count) -> Number:
        return cls(value=count.value, exact=not (count.is_estimate or count.is_bound))


class TypeOfQueue(BaseModel):
    name: str
    pending: Number
    oldest: datetime | None = Field(description="since when its first pending job could have been claimed")
    paused: bool
    concurrency: int | None
    remote: bool = Field(description="whether remote workers may run it")


class BreakerOfQueue(Shown):
    name: str
    state: Literal["closed", "open", "half-open"]
    failures: int = Field(description="in a row")
    reason: str = Field(description="the last failure")
    since: datetime | None = Field(description="in this state; null: it has never failed")
    retry_at: datetime | None = Field(description="while open: when trial calls are let through")
    types: list[str] = Field(description="the job types that depend on it")


class Queue(BaseModel):
    pending: Number
    scheduled: Number
    blocked: Number
    processing: Number
    failed: Number
    workers: int = Field(description="online")
    types: list[TypeOfQueue]
    breakers: list[BreakerOfQueue]


class RunningJob(Shown):
    id: str
    type: str
    claimed_at: datetime
    claim_expires_at: datetime
    current_step: str
    progress_percent: float


RUNNING = (*RunningJob.model_fields, "worker")


class WorkerRow(Shown):
    id: str
    name: str
    kind: Literal["local", "remote"]
    state: Literal["active", "idle", "busy", "offline", "disabled", "revoked"] = Field(
        description="revoked: remote, and no key of it opens anything any more"
    )
    draining: bool
    version: str
    types: list[str]
    capabilities: list[str]
    concurrency: int
    metadata: dict[str, Any]
    registered_at: datetime
    last_heartbeat: datetime | None
    stopped_at: datetime | None
    running: int = Field(description="how many jobs it holds")
    current_job_id: str | None = Field(description="the job that it has held longest; null: it holds none")
    current_jobs: list[RunningJob] = Field(description="all that it holds, in the order of their claims")

    @classmethod
    def of(cls, worker: Worker) -> WorkerRow:
        """Reads `running_jobs`, which the caller has fetched in the order of their claims."""
        jobs = list(worker.running_jobs.all())
        return cls.model_validate(
            {
                "id": worker.pk,
                "types": worker.job_types,
                "running": len(jobs),
                "current_job_id": jobs[0].pk if jobs else None,
                "current_jobs": [RunningJob.model_validate(job) for job in jobs],
                **{name: getattr(worker, name) for name in _AS_STORED},
            }
        )


_AS_STORED = (
    "name",
    "kind",
    "state",
    "draining",
    "version",
    "capabilities",
    "concurrency",
    "metadata",
    "registered_at",
    "last_heartbeat",
    "stopped_at",
)


class WorkerPage(BaseModel):
    workers: list[WorkerRow] = Field(description="by id")
    next: str | None


class WorkerChanged(BaseModel):
    changed: bool = Field(description="false: it was so already")
    worker: WorkerRow


class Forgotten(BaseModel):
    id: str
    name: str = Field(description="attempts and jobs keep it")


class Revoked(BaseModel):
    revoked: list[str] = Field(description="the first characters of each key that opens nothing any more")
    worker: WorkerRow
