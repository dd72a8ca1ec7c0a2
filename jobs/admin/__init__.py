"""The queue in the Django admin."""

from jobs.admin import job, job_type, worker
from jobs.admin.base import ReadOnlyAdmin, ReadOnlyInline, badge

__all__ = ["ReadOnlyAdmin", "ReadOnlyInline", "badge", "job", "job_type", "worker"]
