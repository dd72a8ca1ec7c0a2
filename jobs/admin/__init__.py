"""The queue in the Django admin."""

from jobs.admin import dashboard, job, job_type, worker
from jobs.admin.base import ReadOnlyAdmin, ReadOnlyInline, badge

__all__ = ["ReadOnlyAdmin", "ReadOnlyInline", "badge", "dashboard", "job", "job_type", "worker"]
