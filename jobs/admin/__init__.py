"""The queue in the Django admin."""

from jobs.admin import breaker, dashboard, job, job_type, schedule, worker
from jobs.admin.base import ReadOnlyAdmin, ReadOnlyInline, badge

__all__ = [
    "ReadOnlyAdmin",
    "ReadOnlyInline",
    "badge",
    "breaker",
    "dashboard",
    "job",
    "job_type",
    "schedule",
    "worker",
]
