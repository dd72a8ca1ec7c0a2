"""Every metric there is: its name, what it counts, its labels."""

from __future__ import annotations

from jobs.metrics.exposition import Metric

PREFIX = "sprocket_"


def _counter(name: str, help: str, *labels: str) -> Metric:
    return Metric(f"{PREFIX}{name}_total", "counter", help, labels)


def _gauge(name: str, help: str, *labels: str) -> Metric:
    return Metric(f"{PREFIX}{name}", "gauge", help, labels)


def _histogram(name: str, help: str, *labels: str) -> Metric:
    return Metric(f"{PREFIX}{name}_seconds", "histogram", help, labels)


INFO = _gauge("info", "Always 1; its label is the version of the queue.", "version")
DEPTH = _gauge(
    "queue_jobs",
    "Jobs that are waiting, pending, processing or failed. Each row of pending, and each other status, is counted up to"
    " a bound (10,000).",
    "type",
    "status",
    "priority",
)
PENDING_AGE = _gauge(
    "pending_age_seconds",
    "How long the next job of the type to be claimed has been claimable; 0: there is none.",
    "type",
)
WAIT = _histogram("job_wait", "From claimable to claimed, of the runs that completed their jobs.", "type")
RUN = _histogram("job_run", "How long runs took that completed or failed.", "type")
JOBS = _counter("jobs", "Runs that have ended, by how they ended.", "type", "outcome")
FAILURES = _counter("failures", "Runs that failed or were lost with their worker.", "type")
RECOVERIES = _counter("stale_recoveries", "Runs that were lost and whose jobs were taken back.", "type")
EXHAUSTED = _counter("max_retries_exceeded", "Jobs whose last attempt failed.", "type")
WORKERS = _gauge("workers", "Workers by status; those that said goodbye are not among them.", "status")
HEARTBEAT_AGE = _gauge(
    "worker_heartbeat_age_seconds", "Since a worker was last heard of; the 500 heard of last.", "worker"
)
BREAKER = _gauge("breaker_state", "1 for the state in which the breaker is.", "breaker", "state")
ALERTS = _counter("alerts", "Alerts, by what became of them.", "kind", "result")

ALL = (
    INFO,
    DEPTH,
    PENDING_AGE,
    WAIT,
    RUN,
    JOBS,
    FAILURES,
    RECOVERIES,
    EXHAUSTED,
    WORKERS,
    HEARTBEAT_AGE,
    BREAKER,
    ALERTS,
)
