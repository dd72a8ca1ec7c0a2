"""The tables of the queue."""

from jobs.models.alert import AlertKind, FailurePattern
from jobs.models.attempt import Attempt, Outcome
from jobs.models.breaker import Breaker, BreakerProbe
from jobs.models.claim_answer import ClaimAnswer
from jobs.models.dashboard import Dashboard
from jobs.models.event import Event, Kind
from jobs.models.job import ACTIVE, DERIVED_STATES, FINISHED, Job, Status
from jobs.models.job_type_state import JobTypeState
from jobs.models.rate_window import RateWindow
from jobs.models.schedule import Firing, Schedule
from jobs.models.site_presence import SitePresence
from jobs.models.statistics import CountingMark, Minute, RunTotal
from jobs.models.submission_window import SubmissionWindow
from jobs.models.worker import Worker, WorkerKind, WorkerStatus
from jobs.models.worker_key import WorkerKey
from jobs.models.workflow import Prerequisite, Workflow

__all__ = [
    "ACTIVE",
    "DERIVED_STATES",
    "FINISHED",
    "AlertKind",
    "Attempt",
    "Breaker",
    "BreakerProbe",
    "ClaimAnswer",
    "CountingMark",
    "Dashboard",
    "Event",
    "FailurePattern",
    "Firing",
    "Job",
    "JobTypeState",
    "Kind",
    "Minute",
    "Outcome",
    "Prerequisite",
    "RateWindow",
    "RunTotal",
    "Schedule",
    "SitePresence",
    "Status",
    "SubmissionWindow",
    "Worker",
    "WorkerKey",
    "WorkerKind",
    "WorkerStatus",
    "Workflow",
]
